#include "emulator/bind/kernel_maker.hpp"

#include <algorithm>
#include <unordered_map>

#include "emulator/bind/node.hpp"
#include "emulator/kernels/base/joined_rows.hpp"
#include "emulator/kernels/base/layouts.hpp"
#include "emulator/kernels/base/relayout.hpp"
#include "emulator/kernels/base/taken_runs.hpp"
#include "emulator/kernels/base/tile_program.hpp"
#include "emulator/providers/fallback.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::emulator {
namespace {

// Reference kernels support only the plain layout.
void check_plain(const KernelRequest& request) {
  auto plain = [](const std::vector<Layout>& layouts) {
    return std::all_of(layouts.begin(), layouts.end(),
                       [](const Layout& l) { return l.kind == Layout::Kind::kPlain; });
  };
  if (plain(request.input_layouts) && plain(request.output_layouts)) return;
  throw support::InternalError(support::str("[bind] the kernel of '", request.op->name,
                                            "' requested layouts and then refused them."));
}

}  // namespace

KernelRequest make_request(const ValueTable& values, const program::Instruction& instruction,
                           const ir::OpDef& def, std::span<const ValueId> inputs,
                           std::span<const ValueId> outputs, int replicas, int threads) {
  KernelRequest request;
  request.op = &def;
  request.attrs = instruction.attrs;
  for (ValueId id : inputs) {
    const bool absent = id == kNoValue;
    request.inputs.push_back(absent ? std::nullopt : std::optional(values.value(id).type));
    request.input_layouts.push_back(absent ? Layout{} : values.storage_of(id).layout);
    request.input_fixed.push_back(!absent && values.storage_of(id).is_fixed());
    request.input_strides.push_back(absent ? ir::Shape{} : values.value(id).strides);
  }
  for (ValueId id : outputs) {
    const Storage& storage = values.storage_of(id);
    request.outputs.push_back(values.value(id).type);
    request.output_layouts.push_back(storage.layout);
    request.output_used.push_back(storage.base == Base::kState || storage.writers > 1 ||
                                  storage.readers > 0);
  }
  request.op_id = instruction.op_id;
  request.replicas = replicas;
  request.threads = threads;
  return request;
}

KernelRequest KernelMaker::request(const OpSpec& spec) const {
  return make_request(values_, instruction(spec.instruction), def(spec.instruction), spec.inputs,
                      spec.outputs, program_.replicas, threads_);
}

Provider KernelMaker::fallback(const OpSpec& spec) const {
  const ir::OpDef& row = def(spec.instruction);
  if (row.role == ir::Role::kOpaque) return Provider::kForeign;
  auto is_number = [&](ValueId id) {
    return id == kNoValue || values_.value(id).type.elements() == 1;
  };
  const bool numbers =
      std::ranges::all_of(spec.inputs, is_number) && std::ranges::all_of(spec.outputs, is_number);
  // Ops with a side effect (checks, prints) count as bookkeeping.
  return numbers || row.side_effect ? Provider::kBookkeeping : Provider::kReference;
}

Kernel KernelMaker::make(KernelSpec spec) const {
  Kernel kernel;
  if (const auto* op = std::get_if<OpSpec>(&spec)) {
    bind(*op, kernel);
  } else if (const auto* chain = std::get_if<ChainSpec>(&spec)) {
    kernel.bound = bind_tile_program(tile_program(*chain, kNoValue));
  } else if (const auto* rows = std::get_if<RowsSpec>(&spec)) {
    kernel.bound = rows_kernel(*rows);
  } else {
    const auto& reorder = std::get<ReorderSpec>(spec);
    kernel.bound =
        bind_reorder(values_.value(reorder.from).type, values_.storage_of(reorder.to).layout);
  }
  kernel.spec = std::move(spec);
  return kernel;
}

void KernelMaker::bind(const OpSpec& spec, Kernel& kernel) const {
  KernelRequest wanted = request(spec);
  if (spec.provider != Provider::kFast) {
    check_plain(wanted);
    kernel.bound = bind_fallback(wanted);
    return;
  }
  const KernelRow* row = all_kernels().find(wanted.op->name);
  if (!row) return;
  if (spec.epilogue) {
    kernel.epilogue = tile_program(*spec.epilogue, spec.outputs[0]);
    wanted.epilogue = kernel.epilogue.get();
  }
  kernel.bound = row->bind(wanted);
}

std::unique_ptr<BoundKernel> KernelMaker::runs_kernel(const RowsSpec& spec,
                                                      std::vector<RowsPart> parts) const {
  const auto* reader = spec.members.size() == 2 ? std::get_if<OpSpec>(&spec.members[1]) : nullptr;
  if (!reader || parts[1].kernel->elements_at_once() == 0) {
    throw support::InternalError("[bind] a kernel does not take the elements of a chain.");
  }
  const ir::Type& taken = values_.value(reader->inputs[0]).type;
  return take_runs_of(std::move(parts[0]), std::move(parts[1]), taken.elements(),
                      ir::size_of(taken.dtype));
}

std::unique_ptr<BoundKernel> KernelMaker::rows_kernel(const RowsSpec& spec) const {
  std::vector<RowsPart> parts;
  std::vector<int64_t> held_bytes;  // of a row of each held storage
  std::unordered_map<StorageId, int> held;
  int outside = 0;
  for (const RowsMember& member : spec.members) {
    RowsPart part{.kernel = make(as_spec(member)).bound};
    if (!part.kernel || (spec.rows > 1 && !part.kernel->divides_into(spec.rows))) {
      throw support::InternalError(
          support::str("[bind] a kernel does not divide into ", spec.rows, " rows."));
    }
    for (ValueId id : arguments_of(values_, program_, member)) {
      if (id == kNoValue || !values_.storage_of(id).held) {
        part.buffers.push_back(outside++);
        continue;
      }
      const auto number = static_cast<int>(held_bytes.size());
      const auto [found, added] = held.emplace(values_.value(id).storage, number);
      if (added) held_bytes.push_back(values_.storage_of(id).bytes() / spec.rows);
      part.buffers.push_back(~found->second);
    }
    parts.push_back(std::move(part));
  }
  if (spec.rows == 1) return runs_kernel(spec, std::move(parts));
  return join_rows_of(spec.rows, std::move(parts), held_bytes);
}

// One-element constants become numbers in the program; it reads the other sources from memory.
std::shared_ptr<const TileProgram> KernelMaker::tile_program(const ChainSpec& chain,
                                                             ValueId produced) const {
  // The space is ordered like the kernel's result, or like the chain's.
  const ir::Shape& space = values_.value(chain.outputs[0]).type.shape;
  const ValueId ordering = produced == kNoValue ? chain.outputs[0] : produced;
  const Layout::Kind order = values_.storage_of(ordering).layout.kind;
  TileProgramBuilder builder(memory_shape(space, order), numbers_in_order(space, order));
  std::vector<int> registers;
  for (ValueId source : chain.sources) {
    const ValueId id = source == kNoValue ? produced : source;
    const ir::Type& type = values_.value(id).type;
    const Storage& storage = values_.storage_of(id);
    if (is_number(values_, program_, source)) {
      const auto& literal = program_.constants[storage.index];
      registers.push_back(builder.constant(type.dtype, literal.number_at(0)));
    } else {
      const Value& value = values_.value(id);
      registers.push_back(builder.input(
          type.dtype, value.is_strided()
                          ? strided_operand(type.shape, value.strides, space, order)
                          : operand_strides(type.shape, storage.layout.kind, space, order)));
    }
  }
  for (const ChainSpec::Op& op : chain.ops) {
    const program::Instruction& from = instruction(op.instruction);
    const ir::OpDef& row = def(op.instruction);
    std::vector<int> operands;
    for (int32_t operand : op.operands) {
      operands.push_back(operand < 0 ? -1 : registers[operand]);
    }
    std::vector<ir::DType> results;
    for (program::TensorId id : results_of(row, from.inputs, from.outputs)) {
      results.push_back(program_.tensors[id].type.dtype);
    }
    const auto made = builder.op(row, from.attrs, operands, results, from.op_id);
    registers.insert(registers.end(), made.begin(), made.end());
  }
  for (int32_t stored : chain.stored) builder.output(registers[stored]);
  return builder.finish();
}

}  // namespace poptorch::emulator
