// A kernel for every element-wise op and optimiser update, made as a tile program of one op.
#include "emulator/kernels/base/families.hpp"
#include "emulator/kernels/base/layouts.hpp"
#include "emulator/kernels/base/tile_ops.hpp"
#include "emulator/kernels/base/tile_program.hpp"
#include "ir/op_def.hpp"

namespace poptorch::emulator {
namespace {

using ir::Shape;

// One value that an op makes: a result or, when it has none, an operand that it writes.
struct Result {
  ir::DType dtype;
  int buffer;  // of KernelArgs
};

std::vector<Result> results_of(const KernelRequest& request) {
  std::vector<Result> made;
  const auto& writes = request.op->writes;
  const int inputs = static_cast<int>(request.inputs.size());
  for (size_t i = 0; i < request.outputs.size(); ++i) {
    made.push_back({request.outputs[i].dtype, inputs + static_cast<int>(i)});
  }
  if (!made.empty()) return made;
  for (int operand : writes) {
    if (operand >= inputs) continue;
    const auto& type = request.inputs[operand];
    if (type) made.push_back({type->dtype, operand});
  }
  return made;
}

std::unique_ptr<BoundKernel> bind(const KernelRequest& request) {
  std::vector<ir::DType> operands, results;
  for (const auto& type : request.inputs) {
    if (type) operands.push_back(type->dtype);
  }
  const std::vector<Result> made = results_of(request);
  for (const Result& result : made) results.push_back(result.dtype);
  if (!TileProgramBuilder::supports(*request.op, request.attrs, operands, results)) return nullptr;

  const bool update = request.outputs.empty();
  const ir::Type& type = update ? *request.inputs[0] : request.outputs[0];
  const Shape& result = type.shape;
  const Layout& layout = update ? request.input_layouts[0] : request.output_layouts[0];
  TileProgramBuilder builder(memory_shape(result, layout.kind),
                             numbers_in_order(result, layout.kind));
  std::vector<int> registers;
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    const auto& operand = request.inputs[i];
    if (!operand) {
      registers.push_back(-1);
    } else {
      registers.push_back(builder.input(
          operand->dtype,
          operand_strides(operand->shape, request.input_layouts[i].kind, result, layout.kind)));
    }
  }
  for (int reg : builder.op(*request.op, request.attrs, registers, results, request.op_id)) {
    builder.output(reg);
  }
  // Absent operands have a place in KernelArgs but no buffer in a tile program.
  std::vector<int> buffers;
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    if (request.inputs[i]) buffers.push_back(static_cast<int>(i));
  }
  for (const Result& written : made) buffers.push_back(written.buffer);
  return rewire(bind_tile_program(builder.finish()), std::move(buffers));
}

}  // namespace

void add_elementwise_kernels(KernelTable& table) {
  for (const std::string& op : micro_op_names()) {
    table.add({.op = op,
               .bind = bind,
               .choose_layouts = choose_elementwise_layouts,
               .in_place_input = {0},
               .layouts_of_any_type = true});
  }
}

}  // namespace poptorch::emulator
