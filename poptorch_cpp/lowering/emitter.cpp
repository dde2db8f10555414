#include "lowering/emitter.hpp"

#include <functional>
#include <optional>

#include "ir/execution.hpp"
#include "lowering/code_size.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"
#include "support/watch.hpp"

namespace poptorch::lowering {

using program::Base;
using program::Instruction;
using program::State;
using program::Tensor;
using program::TensorId;
using support::InternalError;
using support::str;
using support::Symbol;
using support::UserError;

namespace {

// Aligns the offsets of states on the chip.
constexpr int64_t kStateAlignment = 8;

std::string where(const ir::Op* op) {
  if (!op) return "an output of the model";
  std::string text = str("op '", op->name(), "'");
  text += ir::place_text(op->location);
  return text;
}

}  // namespace

void set_origin(Instruction& instruction, const ir::Op& op, uint64_t op_id) {
  instruction.op_id = op_id;
  instruction.stage = op.placement.stage;
  instruction.phase = op.placement.phase;
  instruction.block = op.placement.block;
  instruction.scope = op.scope;
  instruction.location = op.location;
  if (op.placement.context == ir::ExecutionContext::kAccumulateOuter) {
    instruction.pass = program::Pass::kUpdate;
  } else if (op.forward_id != 0) {
    instruction.pass = program::Pass::kBackward;
  }
}

Emitter::Emitter(const ir::Module& module, const target::Device& device, int ipus)
    : device_(device), open_(static_cast<size_t>(ipus)), outlines_(module.execution().outline) {
  program_.device = device.name;
  program_.replicas = static_cast<int>(module.execution().replication_factor);
  program_.link_domain = static_cast<int>(module.execution().link_domain);
  program_.io_tiles = static_cast<int>(module.execution().io_tiles);
  program_.ipus.resize(static_cast<size_t>(ipus));
  for (size_t ipu = 0; ipu < program_.ipus.size(); ++ipu) {
    const std::optional<double> share = module.execution().memory_proportion(ipu);
    if (share) program_.ipus[ipu].tile_memory = device.share_of_tile(*share);
  }
  for (auto& stack : open_) stack.emplace_back();
  for (const auto& buffer : module.remote_buffers()) program_.remote_buffers.push_back(*buffer);
  // States that nothing uses are included: the session reads and writes them.
  for (const auto& slot : module.states()) {
    const auto index = static_cast<int32_t>(program_.states.size());
    program_.states.push_back({.slot = *slot, .ipu = kUndecided});
    state_tensors_[slot->name] = add_tensor({.type = slot->type,
                                             .name = slot->name,
                                             .ipu = kUndecided,
                                             .base = Base::kState,
                                             .index = index});
  }
}

TensorId Emitter::add_tensor(Tensor tensor) {
  program_.tensors.push_back(std::move(tensor));
  return static_cast<TensorId>(program_.tensors.size() - 1);
}

TensorId Emitter::arena_tensor(const ir::Type& type, Symbol name, int ipu) {
  return add_tensor({.type = type, .name = name, .ipu = ipu});
}

TensorId Emitter::state_tensor(Symbol slot, int ipu) {
  auto it = state_tensors_.find(slot);
  if (it == state_tensors_.end()) {
    throw InternalError(str("[lowering] there is no state '", slot, "'."));
  }
  Tensor& tensor = program_.tensors[it->second];
  if (tensor.ipu == kUndecided) {
    tensor.ipu = ipu;
    program_.states[tensor.index].ipu = ipu;
  }
  return it->second;
}

TensorId Emitter::constant_tensor(const ir::Literal& literal, Symbol name) {
  program_.constants.push_back(literal);
  const auto index = static_cast<int32_t>(program_.constants.size() - 1);
  return add_tensor({.type = literal.type(),
                     .name = name,
                     .ipu = kUndecided,
                     .base = Base::kConstant,
                     .index = index});
}

TensorId Emitter::alias(TensorId id, const ir::Type& type, Symbol name) {
  Tensor copy = tensor(id);
  copy.type = type;
  copy.name = name;
  return add_tensor(std::move(copy));
}

TensorId Emitter::on_ipu(TensorId id, int ipu, const ir::Op* user) {
  Tensor& home = program_.tensors[id];
  if (home.ipu == kUndecided) {
    home.ipu = ipu;
    if (home.base == Base::kState) program_.states[home.index].ipu = ipu;
  }
  if (auto pending = pending_streams_.find(id); pending != pending_streams_.end()) {
    const auto [stream, attrs] = pending->second;
    pending_streams_.erase(pending);
    Instruction load{.kind = Instruction::Kind::kStreamIn};
    load.outputs = {id};
    load.channel = stream;
    load.cycles = host_cycles(id);
    load.attrs = attrs;
    load.pass = program::Pass::kTransfer;
    emit(home.ipu, std::move(load));
  }
  if (program_.tensors[id].ipu == ipu) return id;

  const Tensor elsewhere = tensor(id);
  if (elsewhere.base == Base::kState) {
    State& state = program_.states[elsewhere.index];
    if (state.slot.kind != "hyper_parameter") {
      throw UserError(str("[partition] '", state.slot.name, "' is used on IPU ", elsewhere.ipu,
                          " and, by ", where(user), ", on IPU ", ipu,
                          ". State lives on one IPU; place its uses on the same IPU."));
    }
    state.ipu = -1;
  } else if (elsewhere.base != Base::kConstant) {
    throw InternalError(str("[lowering] ", where(user), " on IPU ", ipu, " uses '", elsewhere.name,
                            "' of IPU ", elsewhere.ipu, " without a copy."));
  }
  auto [it, added] = copies_.emplace(std::pair(id, ipu), program::kNoTensor);
  if (added) {
    it->second = alias(id, elsewhere.type, elsewhere.name);
    program_.tensors[it->second].ipu = ipu;
  }
  return it->second;
}

void Emitter::note_write(TensorId id) {
  if (tensor(id).base == Base::kState) written_states_.insert(tensor(id).index);
}

void Emitter::move_state(Symbol slot, bool on_chip, int shards) {
  State& state = program_.states[tensor(state_tensors_.at(slot)).index];
  state.on_chip = on_chip;
  state.shards = shards;
}

void Emitter::load_on_first_use(TensorId id, int stream, ir::Attrs attrs) {
  pending_streams_.emplace(id, std::pair(stream, std::move(attrs)));
}

int Emitter::find_stream(Symbol name) const {
  for (size_t i = 0; i < program_.streams.size(); ++i) {
    if (program_.streams[i].host.name == name) return static_cast<int>(i);
  }
  throw InternalError(str("[lowering] there is no stream '", name, "'."));
}

int Emitter::find_remote(Symbol name) const {
  for (size_t i = 0; i < program_.remote_buffers.size(); ++i) {
    if (program_.remote_buffers[i].name == name) return static_cast<int>(i);
  }
  throw InternalError(str("[lowering] there is no remote buffer '", name, "'."));
}

void Emitter::emit(int ipu, Instruction instruction) {
  support::check_interrupt();
  ++emitted_;
  open_[ipu].back().push_back(std::move(instruction));
}

int64_t Emitter::host_cycles(TensorId id) const {
  return target::host_cycles(device_, static_cast<double>(tensor(id).type.bytes()));
}

int64_t Emitter::streaming_cycles(TensorId id) const {
  return target::streaming_cycles(device_, static_cast<double>(tensor(id).type.bytes()));
}

void Emitter::meet() {
  for (size_t ipu = 0; ipu < open_.size() && open_.size() > 1; ++ipu) {
    emit(static_cast<int>(ipu), {.kind = Instruction::Kind::kSync});
  }
}

void Emitter::open_block() {
  for (auto& stack : open_) stack.emplace_back();
}

std::vector<std::vector<Instruction>> Emitter::close_block() {
  std::vector<std::vector<Instruction>> bodies;
  for (auto& stack : open_) {
    bodies.push_back(std::move(stack.back()));
    stack.pop_back();
  }
  return bodies;
}

void Emitter::close_loop(int64_t count, bool per_micro_batch, const ir::Op* origin) {
  auto bodies = close_block();
  for (size_t ipu = 0; ipu < bodies.size(); ++ipu) {
    if (bodies[ipu].empty()) continue;
    Instruction loop{.kind = Instruction::Kind::kLoop};
    loop.count = count;
    loop.per_micro_batch = per_micro_batch;
    loop.blocks.push_back(std::move(bodies[ipu]));
    if (origin) set_origin(loop, *origin, origin->id());
    emit(static_cast<int>(ipu), std::move(loop));
  }
}

void Emitter::close_rounds(int64_t count, const std::vector<int>& ahead) {
  auto bodies = close_block();
  for (size_t ipu = 0; ipu < bodies.size(); ++ipu) {
    if (bodies[ipu].empty()) continue;
    if (count == 1 && ahead[ipu] == 0) {
      for (Instruction& instruction : bodies[ipu]) {
        emit(static_cast<int>(ipu), std::move(instruction));
      }
      continue;
    }
    Instruction loop{.kind = Instruction::Kind::kLoop};
    loop.count = count;
    loop.rewind = ahead[ipu];
    loop.blocks.push_back(std::move(bodies[ipu]));
    emit(static_cast<int>(ipu), std::move(loop));
  }
}

void Emitter::check_written_copies() const {
  for (int32_t index : written_states_) {
    const State& state = program_.states[index];
    if (state.ipu == -1) {
      throw UserError(str("[partition] '", state.slot.name,
                          "' is used on several IPUs and written. State that changes lives on one "
                          "IPU; place its uses on the same IPU."));
    }
  }
}

void Emitter::place_states() {
  for (Tensor& tensor : program_.tensors) {
    if (tensor.ipu != kUndecided) continue;
    tensor.ipu = 0;
    if (tensor.base == Base::kState) program_.states[tensor.index].ipu = 0;
  }
  std::set<std::pair<int, int32_t>> constants;
  std::set<std::pair<int, int32_t>> copies;
  for (const Tensor& tensor : program_.tensors) {
    if (tensor.base == Base::kConstant) constants.emplace(tensor.ipu, tensor.index);
    if (tensor.base == Base::kState) copies.emplace(tensor.ipu, tensor.index);
  }
  for (const auto& [ipu, index] : constants) {
    program_.ipus[ipu].constant_bytes += program_.constants[index].type().bytes();
  }
  for (const auto& [ipu, index] : copies) {
    State& state = program_.states[index];
    if (!state.on_chip) continue;
    int64_t& end = program_.ipus[ipu].state_bytes;
    if (state.ipu != -1) state.offset = end;
    const int64_t bytes = (state.slot.type.bytes() + state.shards - 1) / state.shards;
    end += (bytes + kStateAlignment - 1) / kStateAlignment * kStateAlignment;
  }
}

program::Program Emitter::finish() {
  check_written_copies();
  place_states();
  for (size_t i = 0; i < open_.size(); ++i) {
    program_.ipus[i].body = std::move(open_[i].back());
    program_.ipus[i].body.shrink_to_fit();
  }
  estimate_code(program_, device_, outlines_);
  return std::move(program_);
}

}  // namespace poptorch::lowering
