// A kernel for every element-wise op and optimiser update: a tile program of one op.
#include "emulator/kernels/families.hpp"
#include "emulator/kernels/layouts.hpp"
#include "emulator/kernels/tile_ops.hpp"
#include "emulator/kernels/tile_program.hpp"

namespace poptorch::emulator {
namespace {

using ir::Shape;

std::unique_ptr<BoundKernel> bind(const KernelRequest& request) {
  std::vector<ir::DType> operands, results;
  for (const auto& type : request.inputs) {
    if (type) operands.push_back(type->dtype);
  }
  for (const ir::Type& type : request.outputs) results.push_back(type.dtype);
  // Updates have no results of their own: what they write are operands.
  const bool update = request.outputs.empty();
  for (size_t i = 0; update && i < request.op->writes.size(); ++i) {
    const auto& type = request.inputs[request.op->writes[i]];
    if (type) results.push_back(type->dtype);
  }
  if (!TileProgramBuilder::supports(*request.op, request.attrs, operands, results)) return nullptr;

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
  for (int reg : builder.op(*request.op, request.attrs, registers, results, request.op_id)) {
    builder.output(reg);
  }
  // Absent operands have a place in KernelArgs but no buffer in a tile program; updates have no
  // result buffers but write their operands.
  std::vector<int> buffers;
  const int inputs = static_cast<int>(request.inputs.size());
  for (int i = 0; i < inputs; ++i) {
    if (request.inputs[i]) buffers.push_back(i);
  }
  for (size_t i = 0; i < request.outputs.size(); ++i) {
    buffers.push_back(inputs + static_cast<int>(i));
  }
  for (size_t i = 0; update && i < request.op->writes.size(); ++i) {
    if (request.inputs[request.op->writes[i]]) buffers.push_back(request.op->writes[i]);
  }
  return rewire(bind_tile_program(builder.finish()), std::move(buffers));
}

}  // namespace

void add_elementwise_kernels(KernelTable& table) {
  for (const std::string& op : micro_op_names()) {
    table.add({.op = op,
               .choose_layouts = choose_elementwise_layouts,
               .bind = bind,
               .takes_epilogue = false,
               .in_place_input = {0},
               .layouts_of_any_type = true});
  }
}

}  // namespace poptorch::emulator
