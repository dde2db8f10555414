// Implements lower.hpp: one walk over main, calls inlined, regions as nested blocks.
#include "lowering/lower.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>

#include "ir/effects.hpp"
#include "ir/text.hpp"
#include "lowering/emitter.hpp"
#include "lowering/memory_plan.hpp"
#include "lowering/pipeline.hpp"
#include "lowering/schedule.hpp"
#include "partition/place.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::lowering {
namespace {

using ir::Graph;
using ir::Module;
using ir::Op;
using ir::Value;
using program::Base;
using program::Instruction;
using program::Program;
using program::TensorId;
using support::InternalError;
using support::str;
using support::Symbol;
using Kind = Instruction::Kind;

// The graph at hand: what its values are in the program.
struct Frame {
  std::unordered_map<const Value*, TensorId> values = {};  // look-up only
  int ipu = 0;                                             // of ops that name none
  uint64_t call_id = 0;  // of the call that the graph runs for; 0: main
};

// Ops of a graph that is called twice draw different random numbers.
uint64_t mixed_id(uint64_t call_id, uint64_t op_id) {
  if (call_id == 0) return op_id;
  uint64_t x = call_id * 0x9e3779b97f4a7c15u + op_id;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return (x ^ (x >> 31)) >> 1;  // stays positive as a 64-bit integer of the text
}

int highest_ipu(const Module& module) {
  int highest = 0;
  for (const auto& graph : module.graphs()) {
    for (const Op* op : graph->ops()) {
      highest = std::max(highest, op->placement.ipu);
      if (op->is("ipu_copy")) highest = std::max<int>(highest, op->attr<int64_t>("to"));
    }
  }
  return highest;
}

class Lowering {
 public:
  Lowering(const Module& module, const LowerOptions& options)
      : module_(module),
        options_(options),
        crossings_(options.strategy == transforms::Strategy::kPipelined ? Crossings(module.main())
                                                                        : Crossings()),
        emitter_(module, target::find_device(options.device), highest_ipu(module) + 1) {}

  Program run() {
    declare_streams();
    lower_main();
    Program program = emitter_.finish();
    program.replicas = options_.replicas;
    program.random_seed = options_.random_seed;
    program.micro_batches_per_run = options_.device_iterations * options_.gradient_accumulation;
    plan_memory(program, module_.registry());
    count_transfers(program);
    program::verify(program);
    return program;
  }

 private:
  // --- streams ----------------------------------------------------------------------------------
  Symbol stream_name(const std::string& name, std::string_view kind, size_t index) {
    if (!name.empty() && stream_names_.insert(name).second) return name;
    std::string unique = str(kind, index);
    while (!stream_names_.insert(unique).second) unique += "_";
    return unique;
  }

  void declare_streams() {
    const Graph& main = module_.main();
    auto& streams = emitter_.program().streams;
    for (const auto& stream : module_.streams()) stream_names_.insert(stream->name.text());
    for (const auto& input : main.inputs()) {
      const size_t index = streams.size();
      streams.push_back({.host = {stream_name(input->name(), "input", index), input->type(), true},
                         .group_size = options_.input_group_size,
                         .group_stride = options_.input_group_stride});
      const TensorId id = emitter_.arena_tensor(input->type(), input->name(), Emitter::kUndecided);
      emitter_.load_on_first_use(id, static_cast<int>(index));
      main_.values[input.get()] = id;
    }
    for (size_t i = 0; i < main.outputs().size(); ++i) {
      const Value* output = main.outputs()[i];
      outputs_[output].push_back(static_cast<int>(streams.size()));
      streams.push_back({.host = {stream_name("", "output", i), output->type(), false},
                         .keep = options_.keep,
                         .period = options_.keep_period});
    }
    for (size_t i = 0; i < options_.last_keeps.size(); ++i) {
      auto& stream = streams[streams.size() - options_.last_keeps.size() + i];
      std::tie(stream.keep, stream.period) = options_.last_keeps[i];
    }
    for (const auto& stream : module_.streams()) streams.push_back({.host = *stream});
  }

  // Computed from constants alone.
  static bool is_constant(const Value* value) {
    const Op* op = value->producer();
    if (!op || !ir::is_pure(*op)) return false;
    const auto& operands = op->operands();
    return op->is("constant") ||
           (!operands.empty() && std::all_of(operands.begin(), operands.end(), [](auto* operand) {
             return !operand || is_constant(operand);
           }));
  }

  void store_output(const Value* value) {
    auto it = outputs_.find(value);
    if (it == outputs_.end()) return;
    const int home = emitter_.tensor(main_.values.at(value)).ipu;
    const TensorId id = emitter_.on_ipu(main_.values.at(value), std::max(home, 0), nullptr);
    for (int stream : it->second) {
      if (is_constant(value)) {
        emitter_.program().streams[static_cast<size_t>(stream)].keep = program::Keep::kOnce;
      }
      Instruction store{.kind = Kind::kStreamOut};
      store.inputs = {id};
      store.channel = stream;
      store.pass = program::Pass::kTransfer;
      store.cycles = emitter_.host_cycles(id);
      emitter_.emit(emitter_.tensor(id).ipu, std::move(store));
    }
    outputs_.erase(it);
  }

  // Inputs, constants and states that main returns are read when its work is done.
  void store_late_outputs(bool outer) {
    for (const Value* output : module_.main().outputs()) {
      const Op* producer = output->producer();
      if ((producer && is_outer(*producer)) == outer) store_output(output);
    }
  }

  static void count_block(const std::vector<Instruction>& block, int64_t times,
                          std::vector<int64_t>& counts) {
    for (const Instruction& instruction : block) {
      if (instruction.kind == Kind::kStreamIn || instruction.kind == Kind::kStreamOut) {
        counts[static_cast<size_t>(instruction.channel)] += times;
      }
      const int64_t inner = instruction.kind == Kind::kLoop ? times * instruction.count : times;
      for (const auto& nested : instruction.blocks) count_block(nested, inner, counts);
    }
  }

  void count_transfers(Program& program) {
    std::vector<int64_t> counts(program.streams.size(), 0);
    for (const auto& ipu : program.ipus) count_block(ipu.body, 1, counts);
    for (size_t i = 0; i < counts.size(); ++i) {
      // The host hands over a batch for every micro-batch, even of an input that nothing reads.
      const bool input = i < module_.main().inputs().size();
      const int64_t batches = program.micro_batches_per_run;
      if (input && counts[i] != 0 && counts[i] != batches) {
        throw InternalError(str("[lowering] input ", i, " is read ", counts[i], " times in ",
                                batches, " micro-batches."));
      }
      program.streams[i].transfers = input ? batches : counts[i];
    }
  }

  // --- main -------------------------------------------------------------------------------------
  bool is_outer(const Op& op) const {
    return options_.gradient_accumulation > 1 &&
           op.placement.context == ir::ExecutionContext::kAccumulateOuter;
  }

  void lower_main() {
    const int64_t rounds = options_.device_iterations, batches = options_.gradient_accumulation;
    const bool accumulate = batches > 1;
    check_outer_is_last();
    order_ = schedule_ops(module_.main());
    if (pipelined()) return lower_pipeline();
    if (rounds > 1) emitter_.open_block();
    if (accumulate) emitter_.open_block();
    lower_section(false);
    if (options_.strategy == transforms::Strategy::kSharded) meet();
    if (accumulate) {
      emitter_.close_loop(batches, true);
      lower_section(true);
    }
    if (rounds > 1) emitter_.close_loop(rounds, !accumulate);
  }

  void lower_section(bool outer) {
    for (const Op* op : order_) {
      if (is_outer(*op) == outer) lower_main_op(*op);
    }
    store_late_outputs(outer);
  }

  void lower_main_op(const Op& op) {
    lower_op(op, main_);
    for (size_t i = 0; i < op.result_count(); ++i) {
      const Value* result = op.result(i);
      if (emitter_.tensor(main_.values.at(result)).base == Base::kArena) store_output(result);
    }
  }

  // Sharded IPUs wait for each other, so that one micro-batch is under way at a time.
  void meet() {
    const size_t ipus = emitter_.program().ipus.size();
    for (size_t ipu = 0; ipu < ipus && ipus > 1; ++ipu) {
      emitter_.emit(static_cast<int>(ipu), Instruction{.kind = Kind::kSync});
    }
  }

  // --- pipelines
  // ----------------------------------------------------------------------------------
  bool pipelined() const { return crossings_.stages() > 1; }

  void lower_pipeline() {
    std::vector<std::vector<const Op*>> by_stage(static_cast<size_t>(crossings_.stages()));
    for (const Op* op : order_) {
      if (is_outer(*op)) continue;
      // State is read in place: reads come before the work of every stage.
      if (!partition::has_place(*op)) {
        lower_op(*op, main_);
      } else {
        by_stage[static_cast<size_t>(op->placement.stage)].push_back(op);
      }
    }
    std::vector<std::vector<Block>> bodies;
    for (size_t stage = 0; stage < by_stage.size(); ++stage) {
      emitter_.open_block();
      lower_stage(static_cast<int>(stage), by_stage[stage]);
      bodies.push_back(emitter_.close_block());
    }
    const bool training = options_.gradient_accumulation > 1;
    const int64_t rounds = training ? options_.device_iterations : 1;
    emitter_.open_block();
    const std::vector<int> ahead = emit_round(
        emitter_, bodies, training ? options_.gradient_accumulation : options_.device_iterations);
    if (training) lower_section(true);
    emitter_.close_rounds(rounds, ahead);
  }

  void lower_stage(int stage, const std::vector<const Op*>& ops) {
    for (Instruction& receive : arriving_[stage]) {
      const TensorId id = receive.outputs[0];
      emitter_.emit(emitter_.tensor(id).ipu, std::move(receive));
    }
    for (const Value* value : arrived_[stage]) keep_for_later(value);
    for (const auto& input : module_.main().inputs()) {
      const Readiness* ready = crossings_.of(input.get());
      if (ready && ready->stage == stage) keep_for_later(input.get());
    }
    for (const Value* value : crossings_.carried_into(stage)) restore(value, stage);
    for (const Op* op : ops) {
      lower_main_op(*op);
      for (size_t i = 0; i < op->result_count() && !op->is("ipu_copy"); ++i) {
        keep_for_later(op->result(i));
      }
    }
    // What main returns and no op of it makes.
    for (const Value* output : module_.main().outputs()) {
      const Readiness* ready = crossings_.of(output);
      const bool made = output->producer() && is_outer(*output->producer());
      if (!made && (ready ? ready->stage : 0) == stage) store_output(output);
    }
  }

  // Puts a value that later stages use into a stash.
  void keep_for_later(const Value* value) {
    const Readiness* ready = crossings_.of(value);
    if (!ready || ready->last_use == ready->stage) return;
    auto& stashes = emitter_.program().stashes;
    stash_of_[value] = static_cast<int>(stashes.size());
    stashes.push_back({value->type(), ready->ipu, ready->last_use - ready->stage});
    Instruction keep{.kind = Kind::kStash};
    keep.inputs = {emitter_.on_ipu(main_.values.at(value), ready->ipu, nullptr)};
    keep.channel = stash_of_[value];
    keep.stage = ready->stage;
    keep.cycles = move_cycles(value->type());
    emitter_.emit(ready->ipu, std::move(keep));
  }

  void restore(const Value* value, int stage) {
    const Readiness& ready = *crossings_.of(value);
    const support::Symbol name = emitter_.tensor(main_.values.at(value)).name;
    main_.values[value] = emitter_.arena_tensor(value->type(), name, ready.ipu);
    Instruction fetch{.kind = Kind::kRestore};
    fetch.outputs = {main_.values[value]};
    fetch.channel = stash_of_.at(value);
    fetch.stage = stage;
    fetch.cycles = move_cycles(value->type());
    emitter_.emit(ready.ipu, std::move(fetch));
  }

  // The loop over micro-batches moves outer ops behind all others: none of those may follow one
  // whose writes it would see.
  void check_outer_is_last() const {
    std::set<Symbol> slots;
    auto slot_of = [](const Value* value) {
      const Op* op = ir::memory_root(value)->producer();
      return op && op->is("variable") ? Symbol(op->attr<std::string>("name")) : Symbol();
    };
    for (const Op* op : module_.main().ops()) {
      if (is_outer(*op)) {
        for (int index : op->def().writes) {
          if (const Value* value = op->operand(static_cast<size_t>(index))) {
            slots.insert(slot_of(value));
          }
        }
        continue;
      }
      for (const Value* operand : op->operands()) {
        if (!operand || slots.empty()) continue;
        const Symbol slot = slot_of(operand);
        if (!slot.empty() && slots.count(slot)) {
          throw InternalError(str("[lowering] ", ir::print(*op), " of the micro-batch loop reads '",
                                  slot, "' after the update wrote it."));
        }
      }
    }
  }

  // --- ops --------------------------------------------------------------------------------------
  void lower_op(const Op& op, Frame& frame) {
    using Rule = void (Lowering::*)(const Op&, Frame&);
    static const std::unordered_map<std::string, Rule> kRules = {
        {"variable", &Lowering::lower_variable},
        {"constant", &Lowering::lower_constant},
        {"call", &Lowering::lower_call},
        {"repeat", &Lowering::lower_repeat},
        {"if", &Lowering::lower_if},
        {"ipu_copy", &Lowering::lower_ipu_copy},
        {"host_load", &Lowering::lower_host_load},
        {"host_store", &Lowering::lower_host_store},
        {"remote_load", &Lowering::lower_remote_load},
        {"remote_store", &Lowering::lower_remote_store},
    };
    auto rule = kRules.find(op.name());
    (this->*(rule == kRules.end() ? &Lowering::lower_compute : rule->second))(op, frame);
  }

  int ipu_of(const Op& op, const Frame& frame) const {
    return op.placement.ipu >= 0 ? op.placement.ipu : frame.ipu;
  }

  // Operand `i` as it is on `ipu`.
  TensorId operand(const Op& op, size_t i, const Frame& frame, int ipu) {
    const Value* value = op.operand(i);
    if (!value) return program::kNoTensor;
    auto it = frame.values.find(value);
    if (it == frame.values.end()) {
      throw InternalError(str("[lowering] ", ir::print(op),
                              " needs a value that is made only after the micro-batch loop."));
    }
    return emitter_.on_ipu(it->second, ipu, &op);
  }

  Instruction started(const Op& op, const Frame& frame, Kind kind) const {
    Instruction instruction{.kind = kind};
    set_origin(instruction, op, mixed_id(frame.call_id, op.id()));
    return instruction;
  }

  // Results without a name are called after their op.
  static Symbol name_of(const Op& op, size_t i) {
    const std::string& name = op.result(i)->name();
    return name.empty() ? op.name() : name;
  }

  TensorId define(const Op& op, size_t i, Frame& frame, int ipu) {
    const Value* result = op.result(i);
    const TensorId id = emitter_.arena_tensor(result->type(), name_of(op, i), ipu);
    frame.values[result] = id;
    return id;
  }

  void lower_variable(const Op& op, Frame& frame) {
    frame.values[op.result()] =
        emitter_.state_tensor(op.attr<std::string>("name"), op.placement.ipu);
  }

  void lower_constant(const Op& op, Frame& frame) {
    frame.values[op.result()] =
        emitter_.constant_tensor(op.attr<ir::Literal>("value"), name_of(op, 0));
  }

  void lower_compute(const Op& op, Frame& frame) {
    const int ipu = ipu_of(op, frame);
    Instruction instruction = started(op, frame, Kind::kCompute);
    instruction.op = op.name();
    instruction.attrs = op.attrs();
    for (size_t i = 0; i < op.operand_count(); ++i) {
      instruction.inputs.push_back(operand(op, i, frame, ipu));
    }
    program::complete_operands(instruction, op.def());
    for (int index : op.def().writes) prepare_write(instruction, static_cast<size_t>(index), ipu);
    for (size_t i = 0; i < op.result_count(); ++i) {
      const int over = i < op.def().writes.size() ? op.def().writes[i] : -1;
      const TensorId written =
          over < 0 ? program::kNoTensor : instruction.inputs[static_cast<size_t>(over)];
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
    instruction.cycles = cycles(op);
    emitter_.emit(ipu, std::move(instruction));
  }

  // An op writes its operand: state is noted, a constant is copied first.
  void prepare_write(Instruction& instruction, size_t index, int ipu) {
    if (index >= instruction.inputs.size()) return;
    TensorId& id = instruction.inputs[index];
    if (id == program::kNoTensor) return;
    emitter_.note_write(id);
    if (emitter_.tensor(id).base == Base::kConstant) id = copy(id, ipu);
  }

  TensorId copy(TensorId from, int ipu) {
    const ir::Type type = emitter_.tensor(from).type;
    const TensorId to = emitter_.arena_tensor(type, emitter_.tensor(from).name, ipu);
    copy_to(from, to, ipu);
    return to;
  }

  void copy_to(TensorId from, TensorId to, int ipu) {
    if (from == to) return;
    Instruction move{.kind = Kind::kCopy};
    move.inputs = {from};
    move.outputs = {to};
    move.cycles = move_cycles(emitter_.tensor(from).type);
    emitter_.emit(ipu, std::move(move));
  }

  int64_t move_cycles(const ir::Type& type) const {
    return target::compute_cycles(
        emitter_.device(), {.bytes = 2.0 * static_cast<double>(type.bytes()), .local = true});
  }

  int64_t cycles(const Op& op) const {
    const ir::Cost cost = op.def().cost(op);
    const Value* sample = op.result_count() ? op.result() : op.operand(0);
    return target::compute_cycles(emitter_.device(),
                                  {.flops = cost.flops,
                                   .bytes = cost.bytes,
                                   .matrix_unit = cost.matrix_unit,
                                   .half = sample && ir::size_of(sample->type().dtype) <= 2,
                                   .local = op.def().elementwise});
  }

  void lower_ipu_copy(const Op& op, Frame& frame) {
    const int from = ipu_of(op, frame);
    const int to = static_cast<int>(op.attr<int64_t>("to"));
    const TensorId source = operand(op, 0, frame, from);
    if (from == to) {
      frame.values[op.result()] = source;
      return;
    }
    const int channel = emitter_.new_channel();
    const target::Device& device = emitter_.device();
    const int64_t cycles = target::transfer_cycles(
        device, static_cast<double>(op.result()->type().bytes()), device.link_bandwidth);
    Instruction send = started(op, frame, Kind::kSend);
    send.inputs = {source};
    send.peer = to;
    send.channel = channel;
    send.cycles = cycles;
    Instruction receive = started(op, frame, Kind::kReceive);
    receive.outputs = {define(op, 0, frame, to)};
    receive.peer = from;
    receive.channel = channel;
    receive.cycles = cycles;
    emitter_.emit(from, std::move(send));
    if (const Readiness* ready = pipelined() ? crossings_.of(op.result()) : nullptr) {
      receive.stage = ready->stage;
      arriving_[ready->stage].push_back(std::move(receive));
      arrived_[ready->stage].push_back(op.result());
    } else {
      emitter_.emit(to, std::move(receive));
    }
  }

  // --- transfers
  // ----------------------------------------------------------------------------------
  void lower_host_load(const Op& op, Frame& frame) {
    Instruction load = started(op, frame, Kind::kStreamIn);
    load.outputs = {define(op, 0, frame, ipu_of(op, frame))};
    load.channel = emitter_.find_stream(op.attr<std::string>("stream"));
    load.cycles = emitter_.host_cycles(load.outputs[0]);
    emitter_.emit(ipu_of(op, frame), std::move(load));
  }

  void lower_host_store(const Op& op, Frame& frame) {
    Instruction store = started(op, frame, Kind::kStreamOut);
    store.inputs = {operand(op, 0, frame, ipu_of(op, frame))};
    store.channel = emitter_.find_stream(op.attr<std::string>("stream"));
    store.cycles = emitter_.host_cycles(store.inputs[0]);
    emitter_.emit(ipu_of(op, frame), std::move(store));
  }

  void lower_remote_load(const Op& op, Frame& frame) {
    const int ipu = ipu_of(op, frame);
    Instruction load = started(op, frame, Kind::kOffChipLoad);
    load.inputs = {operand(op, 0, frame, ipu)};
    load.outputs = {define(op, 0, frame, ipu)};
    load.channel = emitter_.find_remote(op.attr<std::string>("buffer"));
    load.cycles = emitter_.host_cycles(load.outputs[0]);
    emitter_.emit(ipu, std::move(load));
  }

  void lower_remote_store(const Op& op, Frame& frame) {
    const int ipu = ipu_of(op, frame);
    Instruction store = started(op, frame, Kind::kOffChipStore);
    store.inputs = {operand(op, 0, frame, ipu), operand(op, 1, frame, ipu)};
    store.channel = emitter_.find_remote(op.attr<std::string>("buffer"));
    store.cycles = emitter_.host_cycles(store.inputs[0]);
    emitter_.emit(ipu, std::move(store));
  }

  // --- called graphs
  // ------------------------------------------------------------------------------
  const Graph& callee(const Op& op, std::string_view attr) const {
    return *module_.find_graph(op.attr<ir::GraphRef>(attr).name);
  }

  // Runs the body with its inputs bound to `arguments`; returns what its outputs are.
  std::vector<TensorId> lower_body(const Op& op, const Graph& body,
                                   const std::vector<TensorId>& arguments, const Frame& frame) {
    Frame inner{.ipu = ipu_of(op, frame), .call_id = mixed_id(frame.call_id, op.id())};
    for (size_t i = 0; i < arguments.size(); ++i) {
      inner.values[body.inputs()[i].get()] = arguments[i];
    }
    for (const Op* nested : body.ops()) lower_op(*nested, inner);
    std::vector<TensorId> results;
    for (const Value* output : body.outputs()) results.push_back(inner.values.at(output));
    return results;
  }

  std::vector<TensorId> operands_on(const Op& op, size_t first, const Frame& frame, int ipu) {
    std::vector<TensorId> ids;
    for (size_t i = first; i < op.operand_count(); ++i) ids.push_back(operand(op, i, frame, ipu));
    return ids;
  }

  void lower_call(const Op& op, Frame& frame) {
    std::vector<TensorId> arguments;
    for (const Value* value : op.operands()) arguments.push_back(frame.values.at(value));
    const auto results = lower_body(op, callee(op, "graph"), arguments, frame);
    for (size_t i = 0; i < results.size(); ++i) frame.values[op.result(i)] = results[i];
  }

  // Carried values have memory of their own, which the body's end rewrites.
  void lower_repeat(const Op& op, Frame& frame) {
    const int ipu = ipu_of(op, frame);
    const Graph& body = callee(op, "graph");
    std::vector<TensorId> arguments = operands_on(op, 0, frame, ipu);
    const size_t carried = op.result_count();
    for (size_t i = 0; i < carried; ++i) {
      arguments[i] = copy(arguments[i], ipu);
      frame.values[op.result(i)] = arguments[i];
    }
    emitter_.open_block();
    std::vector<TensorId> next = lower_body(op, body, arguments, frame);
    // Outputs that are other carried values are saved before any of those is rewritten.
    for (size_t i = 0; i < carried; ++i) {
      next[i] = emitter_.on_ipu(next[i], ipu, &op);
      for (size_t j = 0; j < carried; ++j) {
        if (next[i] == arguments[j] && i != j) {
          next[i] = copy(next[i], ipu);
          break;
        }
      }
    }
    for (size_t i = 0; i < carried; ++i) copy_to(next[i], arguments[i], ipu);
    emitter_.close_loop(op.attr<int64_t>("count"), false, &op);
  }

  void lower_if(const Op& op, Frame& frame) {
    const int ipu = ipu_of(op, frame);
    const std::vector<TensorId> operands = operands_on(op, 0, frame, ipu);
    const std::vector<TensorId> arguments(operands.begin() + 1, operands.end());
    Instruction branch = started(op, frame, Kind::kIf);
    branch.inputs = {operands[0]};
    std::vector<TensorId> results;
    for (size_t i = 0; i < op.result_count(); ++i) results.push_back(define(op, i, frame, ipu));
    for (const char* attr : {"then", "else"}) {
      emitter_.open_block();
      const auto values = lower_body(op, callee(op, attr), arguments, frame);
      for (size_t i = 0; i < results.size(); ++i) {
        copy_to(emitter_.on_ipu(values[i], ipu, &op), results[i], ipu);
      }
      auto bodies = emitter_.close_block();
      for (size_t other = 0; other < bodies.size(); ++other) {
        if (static_cast<int>(other) != ipu && !bodies[other].empty()) {
          throw support::UnsupportedError(str("[lowering] a conditional of IPU ", ipu,
                                              " works on IPU ", other,
                                              " as well. Place both of its branches on one IPU."));
        }
      }
      branch.blocks.push_back(std::move(bodies[static_cast<size_t>(ipu)]));
    }
    emitter_.emit(ipu, std::move(branch));
  }

  const Module& module_;
  const LowerOptions& options_;
  const Crossings crossings_;
  Emitter emitter_;
  Frame main_;
  std::vector<const Op*> order_;  // main's ops as they run
  // Of a pipeline: what arrives at the beginning of a stage, and the stash of a value.
  std::map<int, std::vector<Instruction>> arriving_;
  std::map<int, std::vector<const Value*>> arrived_;
  std::unordered_map<const Value*, int> stash_of_;  // look-up only
  std::set<std::string> stream_names_;
  std::unordered_map<const Value*, std::vector<int>>
      outputs_;  // main's, not yet stored; look-up only
};

}  // namespace

Program lower(const Module& module, const LowerOptions& options) {
  return Lowering(module, options).run();
}

}  // namespace poptorch::lowering
