#include "lowering/main_lowering.hpp"

#include <algorithm>
#include <tuple>

#include "ir/effects.hpp"
#include "ir/execution.hpp"
#include "ir/memory_writes.hpp"
#include "ir/op_def.hpp"
#include "ir/roles.hpp"
#include "ir/text.hpp"
#include "lowering/schedule.hpp"
#include "partition/highest_ipu.hpp"
#include "partition/place.hpp"
#include "support/error.hpp"
#include "support/flat_map.hpp"
#include "support/strings.hpp"

namespace poptorch::lowering {

using ir::Graph;
using ir::Module;
using ir::Op;
using ir::Value;
using program::Base;
using program::Instruction;
using program::Program;
using program::TensorId;
using support::str;
using support::Symbol;
using Kind = Instruction::Kind;

namespace {

void count_block(const std::vector<Instruction>& block, int64_t times,
                 std::vector<int64_t>& counts) {
  for (const Instruction& instruction : block) {
    if (instruction.kind == Kind::kStreamIn || instruction.kind == Kind::kStreamOut) {
      counts[instruction.channel] += times;
    }
    const int64_t inner = instruction.kind == Kind::kLoop ? times * instruction.count : times;
    for (const auto& nested : instruction.blocks) count_block(nested, inner, counts);
  }
}

// Is indexed by OutputMode.
constexpr program::Keep kKeepOf[] = {program::Keep::kFinal, program::Keep::kEveryN,
                                     program::Keep::kAll, program::Keep::kSum};

}  // namespace

MainLowering::MainLowering(const Module& module)
    : module_(module),
      emitter_(module, target::find_device(module.execution().device),
               partition::highest_ipu(module).number + 1),
      ops_(emitter_),
      off_chip_(module, emitter_),
      order_(schedule_ops(module.main())) {
  check_outer_is_last();
  declare_streams();
  note_when_outputs_are_ready();
}

Program MainLowering::finish() {
  Program program = emitter_.finish();
  program.random_seed = execution().random_seed;
  program.micro_batches_per_run = execution().micro_batches();
  count_transfers(program);
  return program;
}

void MainLowering::lower_section(bool outer) {
  std::vector<const Op*> ops;
  for (const Op* op : order_) {
    if (partition::is_outer(*op) == outer) ops.push_back(op);
  }
  off_chip_.begin_section(ops);
  for (const Op* op : ops) lower_op(*op);
  store_late_outputs(outer);
}

void MainLowering::lower_op(const Op& op) {
  off_chip_.before(op, frame_);
  ops_.lower(op, frame_);
  off_chip_.after(op, frame_);
  auto ready = ready_.find(&op);
  if (ready == ready_.end()) return;
  for (const Value* output : ready->second) {
    if (emitter_.tensor(frame_.values.at(output)).base == Base::kArena) store_output(output);
  }
}

// Outputs are ready when they are made, or, if they are written in place, when last written.
void MainLowering::note_when_outputs_are_ready() {
  const ir::MemoryWrites writes(module_.main());
  support::FlatMap<const Op*, size_t> place(order_.size());
  for (size_t i = 0; i < order_.size(); ++i) place[order_[i]] = i;
  for (const Value* output : module_.main().outputs()) {
    const Op* last = output->producer();
    if (!last) continue;
    for (const Op* writer : writes.writers_of(output)) {
      const bool together = partition::is_outer(*writer) == partition::is_outer(*last);
      if (together && place.at(writer) > place.at(last)) last = writer;
    }
    ready_[last].push_back(output);
  }
}

// Returns the attributes of a host transfer. A loop of one round has neither a previous nor a next
// round to overlap with.
ir::Attrs MainLowering::transfer_attrs(const std::vector<std::string>& overlaps,
                                       size_t index) const {
  ir::Attrs attrs;
  if (index >= overlaps.size() || overlaps[index].empty()) return attrs;
  int64_t rounds = execution().gradient_accumulation;
  if (overlaps[index] == "device_iteration_loop") rounds *= execution().device_iterations;
  attrs.set("overlap", overlaps[index]);
  if (rounds > 1) attrs.set("io_tiles", true);
  return attrs;
}

Symbol MainLowering::stream_name(const std::string& name, std::string_view kind, size_t index) {
  if (!name.empty() && stream_names_.insert(name).second) return name;
  std::string unique = str(kind, index);
  while (!stream_names_.insert(unique).second) unique += "_";
  return unique;
}

void MainLowering::declare_streams() {
  const Graph& main = module_.main();
  auto& streams = emitter_.program().streams;
  for (const auto& stream : module_.streams()) stream_names_.insert(stream->name.text());
  for (const auto& input : main.inputs()) {
    const size_t index = streams.size();
    streams.push_back({.host = {stream_name(input->name(), "input", index), input->type(), true},
                       .group_size = static_cast<int>(execution().input_group_size),
                       .group_stride = static_cast<int>(execution().input_group_stride)});
    const TensorId id = emitter_.arena_tensor(input->type(), input->name(), Emitter::kUndecided);
    emitter_.load_on_first_use(id, static_cast<int>(index),
                               transfer_attrs(execution().input_overlaps, index));
    frame_.values[input.get()] = id;
  }
  for (size_t i = 0; i < main.outputs().size(); ++i) {
    const Value* output = main.outputs()[i];
    outputs_[output].push_back(static_cast<int>(streams.size()));
    streams.push_back({.host = {stream_name("", "output", i), output->type(), false},
                       .keep = kKeepOf[static_cast<size_t>(execution().output_mode)],
                       .period = execution().output_period});
  }
  keep_anchored(streams);
  for (const auto& stream : module_.streams()) streams.push_back({.host = *stream});
}

// Sets how main's last outputs are kept: those that are returned whole, then those that anchors
// asked for.
void MainLowering::keep_anchored(std::vector<program::Stream>& streams) const {
  const auto& anchored = execution().anchored;
  auto stream = streams.end() - static_cast<ptrdiff_t>(anchored.size());
  for (auto whole = stream - execution().whole_outputs; whole != stream; ++whole) {
    whole->keep = program::Keep::kAll;
    whole->period = 1;
  }
  for (const ir::Anchored& one : anchored) {
    const ir::Anchor& asked = execution().anchors.at(static_cast<size_t>(one.anchor));
    stream->keep = kKeepOf[static_cast<size_t>(asked.mode)];
    stream->period = asked.period;
    stream->anchor = static_cast<int>(one.anchor);
    stream->anchored = one.name;
    ++stream;
  }
}

void MainLowering::store_output(const Value* value) {
  auto it = outputs_.find(value);
  if (it == outputs_.end()) return;
  const TensorId source = off_chip_.read(value, frame_.values.at(value));
  int home = emitter_.tensor(source).ipu;
  for (const ir::Use& use : value->uses()) {  // where ops after the loop need it
    if (home < 0 && use.op) home = use.op->placement.ipu;
  }
  const TensorId id = emitter_.on_ipu(source, std::max(home, 0), nullptr);
  for (int stream : it->second) {
    Instruction store{.kind = Kind::kStreamOut};
    store.inputs = {id};
    store.channel = stream;
    store.pass = program::Pass::kTransfer;
    store.cycles = emitter_.host_cycles(id);
    store.attrs = transfer_attrs(execution().output_overlaps,
                                 static_cast<size_t>(stream) - module_.main().inputs().size());
    emitter_.emit(emitter_.tensor(id).ipu, std::move(store));
  }
  outputs_.erase(it);
}

void MainLowering::store_late_outputs(bool outer) {
  for (const Value* output : module_.main().outputs()) {
    const Op* producer = output->producer();
    if ((producer && partition::is_outer(*producer)) == outer) store_output(output);
  }
}

void MainLowering::count_transfers(Program& program) const {
  std::vector<int64_t> counts(program.streams.size(), 0);
  for (const auto& ipu : program.ipus) count_block(ipu.body, 1, counts);
  for (size_t i = 0; i < counts.size(); ++i) {
    // The host supplies a batch for every micro-batch, even for an input that nothing reads.
    const bool input = i < module_.main().inputs().size();
    const int64_t batches = program.micro_batches_per_run;
    if (input && counts[i] != 0 && counts[i] != batches) {
      throw support::UserError(str("[lowering] input ", i, " is read ", counts[i], " times in ",
                                   batches, " micro-batches. Read it in every one."));
    }
    program::Stream& stream = program.streams[i];
    stream.transfers = input ? batches : counts[i];
    const double elements = static_cast<double>(stream.host.type.elements()) *
                            static_cast<double>(stream.kept()) * program.replicas;
    if (elements <= ir::kMaxElements) continue;
    throw support::UserError(str("[lowering] ", input ? "input " : "output ", stream.host.name,
                                 " needs a buffer of ", elements,
                                 " elements on the host, more than ", ir::kMaxElements,
                                 ". Run fewer micro-batches at a time."));
  }
}

// The loop over micro-batches moves outer ops after all others. No other op may follow an outer op
// whose writes it would see.
void MainLowering::check_outer_is_last() const {
  std::set<Symbol> slots;
  auto slot_of = [](const Value* value) {
    const Op* op = partition::state_read(value);
    return op ? Symbol(*ir::slot_of(op)) : Symbol();
  };
  for (const Op* op : module_.main().ops()) {
    if (partition::is_outer(*op)) {
      for (int index : op->def().writes) {
        if (const Value* value = op->operand(static_cast<size_t>(index))) {
          slots.insert(slot_of(value));
        }
      }
      continue;
    }
    for (const Value* operand : op->operands()) {
      if (!operand) continue;
      if (operand->producer() && partition::is_outer(*operand->producer())) {
        throw support::UserError(str("[lowering] ", ir::print(*op),
                                     " of the micro-batch loop uses ",
                                     "a value that is made after the loop."));
      }
      if (slots.empty()) continue;
      const Symbol slot = slot_of(operand);
      if (!slot.empty() && slots.count(slot)) {
        throw support::UserError(str("[lowering] ", ir::print(*op),
                                     " of the micro-batch loop reads '", slot,
                                     "' after the update wrote it. Read it before."));
      }
    }
  }
}

}  // namespace poptorch::lowering
