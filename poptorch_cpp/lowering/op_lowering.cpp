// Each op that is more than a kernel has its own rule.
#include "lowering/op_lowering.hpp"

#include <algorithm>
#include <numeric>
#include <string>

#include "ir/op_def.hpp"
#include "ir/roles.hpp"
#include "ir/text.hpp"
#include "program/collective_cost.hpp"
#include "program/op_work.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::lowering {

using ir::Graph;
using ir::Op;
using ir::Value;
using program::Base;
using program::Instruction;
using program::TensorId;
using support::InternalError;
using support::str;
using support::Symbol;
using Kind = Instruction::Kind;

namespace {

// Ops of a graph that is called twice draw different random numbers.
uint64_t mixed_id(uint64_t call_id, uint64_t op_id) {
  if (call_id == 0) return op_id;
  uint64_t x = call_id * 0x9e3779b97f4a7c15u + op_id;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return (x ^ (x >> 31)) >> 1;  // stays positive as a 64-bit integer of the text
}

// Results without a name are named after their op.
Symbol name_of(const Op& op, size_t i) {
  const std::string& name = op.result(i)->name();
  return name.empty() ? op.name() : name;
}

}  // namespace

void OpLowering::lower(const Op& op, Frame& frame) {
  switch (op.role()) {
    case ir::Role::kState:
      return lower_variable(op, frame);
    case ir::Role::kConstant:
      return lower_constant(op, frame);
    case ir::Role::kCall:
      return lower_call(op, frame);
    case ir::Role::kRegion:
      return ir::is_loop(op) ? lower_repeat(op, frame) : lower_if(op, frame);
    case ir::Role::kCopy:
      return lower_ipu_copy(op, frame);
    default:
      break;
  }
  using Rule = void (OpLowering::*)(const Op&, Frame&);
  static const std::unordered_map<std::string, Rule> kRules = {
      {"host_load", &OpLowering::lower_host_load},
      {"host_store", &OpLowering::lower_host_store},
      {"remote_load", &OpLowering::lower_remote_load},
      {"remote_store", &OpLowering::lower_remote_store},
  };
  auto rule = kRules.find(op.name());
  (this->*(rule == kRules.end() ? &OpLowering::lower_compute : rule->second))(op, frame);
}

// The ops of main are placed already. In graphs that ops run, an op that names no IPU goes where
// the state that it uses is, or else its first operand.
int OpLowering::ipu_of(const Op& op, const Frame& frame) const {
  if (op.placement.ipu >= 0) return op.placement.ipu;
  int found = -1;
  for (const Value* value : op.operands()) {
    const auto it = value && frame.nested ? frame.values.find(value) : frame.values.end();
    if (it == frame.values.end()) continue;
    const program::Tensor& tensor = emitter_.tensor(it->second);
    if (tensor.base == Base::kState && tensor.ipu >= 0) return tensor.ipu;
    if (tensor.base == Base::kArena && found < 0) found = tensor.ipu;
  }
  return found >= 0 ? found : frame.ipu;
}

// Returns operand `i` as it is on `ipu`.
TensorId OpLowering::operand(const Op& op, size_t i, const Frame& frame, int ipu) {
  const Value* value = op.operand(i);
  if (!value) return program::kNoTensor;
  auto it = frame.values.find(value);
  if (it == frame.values.end()) {
    throw InternalError(str("[lowering] ", ir::print(op),
                            " needs a value that is made only after the micro-batch loop."));
  }
  return on_ipu(it->second, op, frame, ipu);
}

// Main contains its copies between IPUs. In graphs that ops run, they are made where needed.
TensorId OpLowering::on_ipu(TensorId id, const Op& op, const Frame& frame, int ipu) {
  const program::Tensor& tensor = emitter_.tensor(id);
  const int home = tensor.ipu;
  const bool moves = frame.nested && tensor.base == Base::kArena && home >= 0 && home != ipu;
  if (!moves) return emitter_.on_ipu(id, ipu, &op);
  const TensorId moved = emitter_.arena_tensor(tensor.type, tensor.name, ipu);
  auto [send, receive] = transfer(op, frame, id, moved);
  emitter_.emit(home, std::move(send));
  emitter_.emit(ipu, std::move(receive));
  return moved;
}

// Returns both ends of a copy from IPU to IPU.
std::pair<Instruction, Instruction> OpLowering::transfer(const Op& op, const Frame& frame,
                                                         TensorId from, TensorId to) {
  const program::Tensor& source = emitter_.tensor(from);
  const target::Device& device = emitter_.device();
  Instruction send = started(op, frame, Kind::kSend);
  send.inputs = {from};
  send.peer = emitter_.tensor(to).ipu;
  send.channel = emitter_.new_channel();
  send.cycles = target::pair_cycles(device, static_cast<double>(source.type.bytes()));
  Instruction receive = started(op, frame, Kind::kReceive);
  receive.outputs = {to};
  receive.peer = source.ipu;
  receive.channel = send.channel;
  receive.cycles = send.cycles;
  return {std::move(send), std::move(receive)};
}

Instruction OpLowering::started(const Op& op, const Frame& frame, Kind kind) const {
  Instruction instruction{.kind = kind};
  set_origin(instruction, op, mixed_id(frame.call_id, op.id()));
  return instruction;
}

// Returns the id in the random key: that of the forward op for its copy in a backward stage.
uint64_t OpLowering::key_of(const Op& op) {
  const auto forward = drawn_.find(op.forward_id);
  if (forward != drawn_.end() && forward->second == &op.def()) return op.forward_id;
  if (op.def().random) drawn_.emplace(op.id(), &op.def());
  return op.id();
}

TensorId OpLowering::define(const Op& op, size_t i, Frame& frame, int ipu) {
  const Value* result = op.result(i);
  const TensorId id = emitter_.arena_tensor(result->type(), name_of(op, i), ipu);
  frame.values[result] = id;
  return id;
}

void OpLowering::lower_variable(const Op& op, Frame& frame) {
  frame.values[op.result()] = emitter_.state_tensor(*ir::slot_of(&op), op.placement.ipu);
}

void OpLowering::lower_constant(const Op& op, Frame& frame) {
  frame.values[op.result()] =
      emitter_.constant_tensor(*ir::literal_of(op.result()), name_of(op, 0));
}

void OpLowering::lower_compute(const Op& op, Frame& frame) {
  const int ipu = ipu_of(op, frame);
  Instruction instruction = started(op, frame, Kind::kCompute);
  instruction.op_id = mixed_id(frame.call_id, key_of(op));
  instruction.op = op.name();
  instruction.attrs = op.attrs();
  for (size_t i = 0; i < op.operand_count(); ++i) {
    instruction.inputs.push_back(operand(op, i, frame, ipu));
  }
  program::take_row(instruction, op.def());
  for (int index : op.def().writes) prepare_write(instruction, static_cast<size_t>(index), ipu);
  for (size_t i = 0; i < op.result_count(); ++i) {
    const int over = i < op.def().writes.size() ? op.def().writes[i] : -1;
    const TensorId written = over < 0 ? program::kNoTensor : instruction.inputs[over];
    if (written == program::kNoTensor) {
      instruction.outputs.push_back(define(op, i, frame, ipu));
    } else {
      const TensorId id = emitter_.alias(written, op.result(i)->type(), name_of(op, i));
      frame.values[op.result(i)] = id;
      instruction.outputs.push_back(id);
      instruction.in_place.resize(op.result_count(), -1);
      instruction.in_place[i] = over;
    }
  }
  set_cost(op, instruction);
  emitter_.emit(ipu, std::move(instruction));
}

// Prepares an operand that an op writes: notes state, and copies a constant first.
void OpLowering::prepare_write(Instruction& instruction, size_t index, int ipu) {
  if (index >= instruction.inputs.size()) return;
  TensorId& id = instruction.inputs[index];
  if (id == program::kNoTensor) return;
  emitter_.note_write(id);
  if (emitter_.tensor(id).base == Base::kConstant) id = copy(id, ipu);
}

TensorId OpLowering::copy(TensorId from, int ipu) {
  const ir::Type type = emitter_.tensor(from).type;
  const TensorId to = emitter_.arena_tensor(type, emitter_.tensor(from).name, ipu);
  copy_to(from, to, ipu);
  return to;
}

void OpLowering::copy_to(TensorId from, TensorId to, int ipu) {
  if (from == to) return;
  Instruction move{.kind = Kind::kCopy};
  move.inputs = {from};
  move.outputs = {to};
  move.cycles = move_cycles(emitter_.tensor(from).type);
  emitter_.emit(ipu, std::move(move));
}

int64_t OpLowering::move_cycles(const ir::Type& type) const {
  return program::copy_cycles(emitter_.program(), type);
}

// A collective reduces during the exchange, which takes longer.
void OpLowering::set_cost(const Op& op, Instruction& instruction) {
  const program::Program& program = emitter_.program();
  if (const auto parts = program::collective_parts(program, instruction); !parts.empty()) {
    instruction.cycles = program::cycles_of(parts);
    instruction.temporary.bytes = program::ring_buffer(program, instruction);
    return;
  }
  const ir::Cost cost = op.def().cost(op);
  if (cost.flops == 0 && cost.bytes == 0) return;
  const program::OpCost found =
      program::op_cost(program, instruction, {cost.flops, cost.matrix_unit, cost.steps, cost.row});
  instruction.cycles = target::whole_cycles(found.terms.total());
  instruction.steps = found.steps;
  instruction.temporary.bytes = found.temporary_bytes;
}

void OpLowering::lower_ipu_copy(const Op& op, Frame& frame) {
  const int from = ipu_of(op, frame);
  const int to = *ir::target_ipu(op);
  const TensorId source = operand(op, 0, frame, from);
  if (from == to) {
    frame.values[op.result()] = source;
    return;
  }
  auto [send, receive] = transfer(op, frame, source, define(op, 0, frame, to));
  emitter_.emit(from, std::move(send));
  if (arrival_) return arrival_(op, to, std::move(receive));
  emitter_.emit(to, std::move(receive));
}

void OpLowering::lower_host_load(const Op& op, Frame& frame) {
  Instruction load = started(op, frame, Kind::kStreamIn);
  load.outputs = {define(op, 0, frame, ipu_of(op, frame))};
  load.channel = emitter_.find_stream(op.attr<std::string>("stream"));
  load.cycles = emitter_.host_cycles(load.outputs[0]);
  emitter_.emit(ipu_of(op, frame), std::move(load));
}

void OpLowering::lower_host_store(const Op& op, Frame& frame) {
  Instruction store = started(op, frame, Kind::kStreamOut);
  store.inputs = {operand(op, 0, frame, ipu_of(op, frame))};
  store.channel = emitter_.find_stream(op.attr<std::string>("stream"));
  store.cycles = emitter_.host_cycles(store.inputs[0]);
  emitter_.emit(ipu_of(op, frame), std::move(store));
}

void OpLowering::lower_remote_load(const Op& op, Frame& frame) {
  const int ipu = ipu_of(op, frame);
  Instruction load = started(op, frame, Kind::kOffChipLoad);
  load.inputs = {operand(op, 0, frame, ipu)};
  load.outputs = {define(op, 0, frame, ipu)};
  load.channel = emitter_.find_remote(op.attr<std::string>("buffer"));
  load.cycles = emitter_.streaming_cycles(load.outputs[0]);
  emitter_.emit(ipu, std::move(load));
}

void OpLowering::lower_remote_store(const Op& op, Frame& frame) {
  const int ipu = ipu_of(op, frame);
  Instruction store = started(op, frame, Kind::kOffChipStore);
  store.inputs = {operand(op, 0, frame, ipu), operand(op, 1, frame, ipu)};
  store.channel = emitter_.find_remote(op.attr<std::string>("buffer"));
  store.cycles = emitter_.streaming_cycles(store.inputs[0]);
  emitter_.emit(ipu, std::move(store));
}

std::vector<TensorId> OpLowering::lower_body(const Op& op, const Graph& body,
                                             const std::vector<TensorId>& arguments,
                                             const Frame& frame) {
  const bool nested = frame.nested || op.role() == ir::Role::kRegion;
  Frame inner{
      .ipu = ipu_of(op, frame), .call_id = mixed_id(frame.call_id, op.id()), .nested = nested};
  for (size_t i = 0; i < arguments.size(); ++i) {
    inner.values[body.inputs()[i].get()] = arguments[i];
  }
  for (const Op* nested : body.ops()) lower(*nested, inner);
  std::vector<TensorId> results;
  for (const Value* output : body.outputs()) results.push_back(inner.values.at(output));
  return results;
}

// Returns the inputs of the op's graphs, each on the IPU where they first use it.
std::vector<TensorId> OpLowering::arguments_of(const Op& op, const Frame& frame) {
  std::vector<TensorId> ids;
  for (size_t i = ir::first_argument(op); i < op.operand_count(); ++i) {
    const int ipu = regions_.operand_ipu(op, i, ipu_of(op, frame));
    ids.push_back(operand(op, i, frame, ipu));
  }
  return ids;
}

void OpLowering::lower_call(const Op& op, Frame& frame) {
  std::vector<TensorId> arguments;
  for (const Value* value : op.operands()) arguments.push_back(frame.values.at(value));
  const auto results = lower_body(op, ir::body_of(op), arguments, frame);
  for (size_t i = 0; i < results.size(); ++i) frame.values[op.result(i)] = results[i];
}

// Sets to[i] = from[i] for all at once: a tensor that others must still read is rewritten later.
void OpLowering::rewrite(const std::vector<TensorId>& to, std::vector<TensorId> from,
                         const std::vector<int>& ipus) {
  std::vector<size_t> left(from.size());
  std::iota(left.begin(), left.end(), size_t{0});
  auto is_read = [&](size_t i) {
    return std::any_of(left.begin(), left.end(),
                       [&](size_t other) { return other != i && from[other] == to[i]; });
  };
  while (!left.empty()) {
    auto next = std::find_if_not(left.begin(), left.end(), is_read);
    if (next == left.end()) {  // a cycle: one of its tensors is saved
      const size_t i = left.front();
      const TensorId saved = copy(to[i], ipus[i]);
      std::replace(from.begin(), from.end(), to[i], saved);
      next = left.begin();
    }
    copy_to(from[*next], to[*next], ipus[*next]);
    left.erase(next);
  }
}

// Carried values have separate memory, which the end of the body rewrites.
void OpLowering::lower_repeat(const Op& op, Frame& frame) {
  const Graph& body = ir::body_of(op);
  std::vector<TensorId> arguments = arguments_of(op, frame);
  const size_t carried = op.result_count();
  std::vector<int> homes;
  for (size_t i = 0; i < carried; ++i) {
    homes.push_back(regions_.result_ipu(op, i, ipu_of(op, frame)));
    arguments[i] = copy(arguments[i], homes[i]);
    frame.values[op.result(i)] = arguments[i];
  }
  emitter_.open_block();
  std::vector<TensorId> next = lower_body(op, body, arguments, frame);
  const Frame inside{.ipu = ipu_of(op, frame), .call_id = frame.call_id, .nested = true};
  for (size_t i = 0; i < carried; ++i) next[i] = on_ipu(next[i], op, inside, homes[i]);
  rewrite(arguments, std::move(next), homes);
  emitter_.close_loop(ir::rounds_of(op), false, &op);
}

// Every IPU that works in a branch has its own conditional and condition.
void OpLowering::lower_if(const Op& op, Frame& frame) {
  const int own = ipu_of(op, frame);
  const TensorId condition = operand(op, 0, frame, own);
  const std::vector<TensorId> arguments = arguments_of(op, frame);
  const Frame inside{.ipu = own, .call_id = frame.call_id, .nested = true};
  std::vector<TensorId> results;
  std::vector<int> homes;
  for (size_t i = 0; i < op.result_count(); ++i) {
    homes.push_back(regions_.result_ipu(op, i, own));
    results.push_back(define(op, i, frame, homes[i]));
  }
  std::vector<std::vector<std::vector<Instruction>>> branches;  // by branch and IPU
  for (size_t branch = 0; branch < op.def().bodies.size(); ++branch) {
    emitter_.open_block();
    const auto values = lower_body(op, ir::body_of(op, branch), arguments, frame);
    for (size_t i = 0; i < results.size(); ++i) {
      copy_to(on_ipu(values[i], op, inside, homes[i]), results[i], homes[i]);
    }
    branches.push_back(emitter_.close_block());
  }
  std::vector<std::pair<int, Instruction>> conditionals;
  for (size_t ipu = 0; ipu < branches[0].size(); ++ipu) {
    const int at = static_cast<int>(ipu);
    if (branches[0][ipu].empty() && branches[1][ipu].empty()) continue;
    Instruction conditional = started(op, frame, Kind::kIf);
    conditional.inputs = {on_ipu(condition, op, inside, at)};
    conditional.blocks = {std::move(branches[0][ipu]), std::move(branches[1][ipu])};
    conditionals.emplace_back(at, std::move(conditional));
  }
  for (auto& [ipu, conditional] : conditionals) emitter_.emit(ipu, std::move(conditional));
}

}  // namespace poptorch::lowering
