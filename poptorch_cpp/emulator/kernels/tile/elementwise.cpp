// A kernel for every element-wise op and optimiser update, made as a tile program of one op.
#include "emulator/kernels/base/families.hpp"
#include "emulator/kernels/base/layouts.hpp"
#include "emulator/kernels/base/round_at_random.hpp"
#include "emulator/kernels/base/tile_ops.hpp"
#include "emulator/kernels/base/tile_program.hpp"
#include "ir/op_def.hpp"

namespace poptorch::emulator {
namespace {

using ir::Shape;

// One value that an op makes: a result or, when it has none, an operand that it writes.
struct Result {
  ir::DType dtype;
  int buffer;   // of KernelArgs
  int operand;  // the operand that it writes; -1: none
};

std::vector<Result> results_of(const KernelRequest& request) {
  std::vector<Result> made;
  const auto& writes = request.op->writes;
  const int inputs = static_cast<int>(request.inputs.size());
  for (size_t i = 0; i < request.outputs.size(); ++i) {
    made.push_back({request.outputs[i].dtype, inputs + static_cast<int>(i),
                    i < writes.size() ? writes[i] : -1});
  }
  if (!made.empty()) return made;
  for (int operand : writes) {
    if (operand >= inputs) continue;
    const auto& type = request.inputs[operand];
    if (type) made.push_back({type->dtype, operand, operand});
  }
  return made;
}

bool rounds_at_random(const KernelRequest& request) {
  return request.op->find_attr("stochastic_rounding") && request.attr<bool>("stochastic_rounding");
}

// Random numbers follow the elements' row-major order.
void choose_layouts(KernelRequest& request) {
  if (!rounds_at_random(request)) return choose_elementwise_layouts(request);
  std::fill(request.input_layouts.begin(), request.input_layouts.end(), Layout{});
  std::fill(request.output_layouts.begin(), request.output_layouts.end(), Layout{});
}

std::unique_ptr<BoundKernel> bind(const KernelRequest& request) {
  std::vector<ir::DType> operands, results;
  for (const auto& type : request.inputs) {
    if (type) operands.push_back(type->dtype);
  }
  // Randomly rounded values are first made as float, in buffers after all others.
  const int all = static_cast<int>(request.inputs.size() + request.outputs.size());
  ir::Attrs attrs = request.attrs;
  std::vector<Result> made = results_of(request);
  std::vector<RoundedResult> rounded;
  for (Result& result : made) {
    if (rounds_at_random(request) && result.operand >= 0 && ir::is_half(result.dtype)) {
      rounded.push_back({result.buffer, result.operand, result.dtype});
      result = {ir::DType::kF32, all + static_cast<int>(rounded.size()) - 1, result.operand};
    }
    results.push_back(result.dtype);
  }
  if (!rounded.empty()) attrs.set("stochastic_rounding", false);
  if (!TileProgramBuilder::supports(*request.op, attrs, operands, results)) return nullptr;

  const bool update = request.outputs.empty();
  const ir::Type& type = update ? *request.inputs[0] : request.outputs[0];
  const Shape& result = type.shape;
  const Layout& layout = update ? request.input_layouts[0] : request.output_layouts[0];
  TileProgramBuilder builder(memory_shape(result, layout.kind));
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
  for (int reg : builder.op(*request.op, attrs, registers, results, request.op_id)) {
    builder.output(reg);
  }
  // Absent operands have a place in KernelArgs but no buffer in a tile program.
  std::vector<int> buffers;
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    if (request.inputs[i]) buffers.push_back(static_cast<int>(i));
  }
  for (const Result& written : made) buffers.push_back(written.buffer);
  auto kernel = rewire(bind_tile_program(builder.finish()), std::move(buffers));
  if (rounded.empty()) return kernel;
  return make_update_at_random(std::move(kernel), std::move(rounded), all, type.elements());
}

}  // namespace

void add_elementwise_kernels(KernelTable& table) {
  for (const std::string& op : micro_op_names()) {
    table.add({.op = op,
               .bind = bind,
               .choose_layouts = choose_layouts,
               .in_place_input = {0},
               .layouts_of_any_type = true});
  }
}

}  // namespace poptorch::emulator
