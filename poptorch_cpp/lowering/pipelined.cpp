// The pipelined schedule: each stage's ops form a block, and emit_round() skews the blocks.
#include <map>

#include "ir/execution.hpp"
#include "ir/op_def.hpp"
#include "lowering/pipeline.hpp"
#include "lowering/schedules.hpp"
#include "ops/all_ops.hpp"
#include "partition/place.hpp"

namespace poptorch::lowering {
namespace {

using ir::Op;
using ir::Value;
using program::Instruction;
using program::TensorId;
using Kind = Instruction::Kind;

class Pipeline {
 public:
  explicit Pipeline(MainLowering& main)
      : main_(main), emitter_(main.emitter()), crossings_(main.graph()) {
    main.ops().set_arrival([this](const Op& copy, int ipu, Instruction receive) {
      arrive(copy, ipu, std::move(receive));
    });
  }

  bool has_stages() const { return crossings_.stages() > 1; }

  void run() {
    std::vector<std::vector<const Op*>> by_stage(static_cast<size_t>(crossings_.stages()));
    for (const Op* op : main_.order()) {
      if (partition::is_outer(*op)) continue;
      // State is read in place: reads come before the work of every stage.
      if (!partition::has_place(*op)) {
        main_.ops().lower(*op, main_.frame());
      } else {
        by_stage[op->placement.stage].push_back(op);
      }
    }
    std::vector<std::vector<Block>> bodies;
    for (size_t stage = 0; stage < by_stage.size(); ++stage) {
      emitter_.open_block();
      lower_stage(static_cast<int>(stage), by_stage[stage]);
      bodies.push_back(emitter_.close_block());
    }
    const bool training = main_.execution().gradient_accumulation > 1;
    const int64_t rounds = training ? main_.execution().device_iterations : 1;
    emitter_.open_block();
    const std::vector<int> ahead = emit_round(
        emitter_, bodies,
        training ? main_.execution().gradient_accumulation : main_.execution().device_iterations,
        program::end_of_cycle(!main_.execution().separate_host_sync));
    if (training) lower_updates(ahead);
    emitter_.close_rounds(rounds, ahead);
  }

 private:
  // Micro-batch counters are ahead by now. Instructions that draw random numbers draw those of the
  // round's end, as in every other schedule.
  void lower_updates(const std::vector<int>& ahead) {
    emitter_.open_block();
    main_.lower_section(true);
    auto bodies = emitter_.close_block();
    for (size_t ipu = 0; ipu < bodies.size(); ++ipu) {
      for (Instruction& instruction : bodies[ipu]) {
        if (draws(instruction)) instruction.micro_batch_offset -= ahead[ipu];
        emitter_.emit(static_cast<int>(ipu), std::move(instruction));
      }
    }
  }

  static bool draws(const Instruction& instruction) {
    if (instruction.kind != Kind::kCompute) return false;
    const ir::Attr* rounds = instruction.attrs.find("stochastic_rounding");
    return ops::registry().get(instruction.op.text()).random || (rounds && std::get<bool>(*rounds));
  }

  // Defers the receive of a sent value to the beginning of a later stage.
  void arrive(const Op& copy, int ipu, Instruction receive) {
    const Readiness* ready = crossings_.of(copy.result());
    if (!ready) return emitter_.emit(ipu, std::move(receive));
    receive.stage = ready->stage;
    arriving_[ready->stage].push_back(std::move(receive));
    arrived_[ready->stage].push_back(copy.result());
  }

  void lower_stage(int stage, const std::vector<const Op*>& ops) {
    for (Instruction& receive : arriving_[stage]) {
      const TensorId id = receive.outputs[0];
      emitter_.emit(emitter_.tensor(id).ipu, std::move(receive));
    }
    for (const Value* value : arrived_[stage]) keep_for_later(value);
    for (const auto& input : main_.graph().inputs()) {
      const Readiness* ready = crossings_.of(input.get());
      if (ready && ready->stage == stage) keep_for_later(input.get());
    }
    for (const Value* value : crossings_.carried_into(stage)) restore(value, stage);
    main_.off_chip().begin_section(ops);
    for (const Op* op : ops) {
      main_.lower_op(*op);
      for (size_t i = 0; i < op->result_count() && op->role() != ir::Role::kCopy; ++i) {
        keep_for_later(op->result(i));
      }
    }
    // Outputs that no op of main makes are stored here.
    for (const Value* output : main_.graph().outputs()) {
      const Readiness* ready = crossings_.of(output);
      const bool made = output->producer() && partition::is_outer(*output->producer());
      if (!made && (ready ? ready->stage : 0) == stage) main_.store_output(output);
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
    keep.inputs = {emitter_.on_ipu(main_.frame().values.at(value), ready->ipu, nullptr)};
    keep.channel = stash_of_[value];
    keep.stage = ready->stage;
    keep.cycles = main_.ops().move_cycles(value->type());
    emitter_.emit(ready->ipu, std::move(keep));
  }

  void restore(const Value* value, int stage) {
    const Readiness& ready = *crossings_.of(value);
    const support::Symbol name = emitter_.tensor(main_.frame().values.at(value)).name;
    main_.frame().values[value] = emitter_.arena_tensor(value->type(), name, ready.ipu);
    Instruction fetch{.kind = Kind::kRestore};
    fetch.outputs = {main_.frame().values[value]};
    fetch.channel = stash_of_.at(value);
    fetch.stage = stage;
    fetch.cycles = main_.ops().move_cycles(value->type());
    emitter_.emit(ready.ipu, std::move(fetch));
  }

  MainLowering& main_;
  Emitter& emitter_;
  const Crossings crossings_;
  std::map<int, std::vector<Instruction>> arriving_;  // by stage, at its beginning
  std::map<int, std::vector<const Value*>> arrived_;
  std::unordered_map<const Value*, int> stash_of_;  // look-up only
};

}  // namespace

void schedule_pipelined(MainLowering& main) {
  Pipeline pipeline(main);
  if (pipeline.has_stages()) return pipeline.run();
  main.ops().set_arrival({});
  schedule_sequential(main);
}

}  // namespace poptorch::lowering
