#include "account/report_rows.hpp"

namespace poptorch::account {

const std::vector<Figure<MemoryReport>>& figures_of(const MemoryReport&) {
  using M = MemoryReport;
  static const std::vector<Figure<M>> rows = {
      {"state_bytes", &M::state_bytes, "bytes",
       "Weights, optimiser state, accumulators, buffers, constants and alignment."},
      {"arena_bytes", &M::arena_bytes, "bytes", "Activations and temporaries at their peak."},
      {"stash_bytes", &M::stash_bytes, "bytes",
       "Stashes: activations that a pipeline keeps for the backward pass."},
      {"code_bytes", &M::code_bytes, "bytes", "Estimated size of the code."},
      {"capacity_bytes", &M::capacity_bytes, "bytes", "The memory of an IPU."},
      {"needed_bytes", &M::needed, "bytes", "Sum of state, arena, stash and code."},
      {"weight_bytes", &M::weight_bytes, "bytes", "Weights, a part of the state."},
      {"optimiser_bytes", &M::optimiser_bytes, "bytes", "Optimiser state, a part of the state."},
      {"accumulator_bytes", &M::accumulator_bytes, "bytes",
       "Accumulators of gradients, a part of the state."},
      {"constant_bytes", &M::constant_bytes, "bytes", "Constants, a part of the state."},
  };
  return rows;
}

const std::vector<Figure<WorkReport>>& figures_of(const WorkReport&) {
  using W = WorkReport;
  static const std::vector<Figure<W>> rows = {
      {"compute_cycles", &W::compute_cycles, "cycles", "Cycles of computing."},
      {"link_cycles", &W::link_cycles, "cycles", "Cycles of sending to other IPUs over IPU-Links."},
      {"host_cycles", &W::host_cycles, "cycles", "Cycles of transfers with the host."},
      {"streaming_cycles", &W::streaming_cycles, "cycles",
       "Cycles of transfers with Streaming Memory."},
      {"gateway_cycles", &W::gateway_cycles, "cycles",
       "Cycles of sending to other IPUs over GW-Links."},
      {"gateway_bytes", &W::gateway_bytes, "bytes", "Bytes sent to other IPUs over GW-Links."},
      {"idle_cycles", &W::idle_cycles, "cycles", "Cycles of waiting: the rest of the run."},
      {"host_wait_cycles", &W::host_wait_cycles, "cycles",
       "Cycles of waiting while other IPUs of a pipeline transfer with the host; a part of the "
       "waiting."},
      {"link_wait_cycles", &W::link_wait_cycles, "cycles",
       "Cycles of waiting while other IPUs of a pipeline send; a part of the waiting."},
      {"overlapped_cycles", &W::overlapped_cycles, "cycles",
       "Cycles of transfers through IO tiles that overlap with other work; a part of the "
       "transfers."},
      {"link_bytes", &W::link_bytes, "bytes", "Bytes sent to other IPUs over IPU-Links."},
      {"host_bytes", &W::host_bytes, "bytes", "Bytes transferred to and from the host."},
      {"streaming_bytes", &W::streaming_bytes, "bytes",
       "Bytes transferred to and from Streaming Memory."},
  };
  return rows;
}

const std::vector<Figure<StreamReport>>& figures_of(const StreamReport&) {
  using S = StreamReport;
  static const std::vector<Figure<S>> rows = {
      {"name", &S::name, "", "The name of the stream."},
      {"to_device", &S::to_device, "", "Whether the stream is an input of the device."},
      {"overlap", &S::overlap, "",
       "The loop with which the transfers of the stream may overlap, or none."},
      {"overlaps", &S::overlaps, "", "Whether the transfers overlap with that loop."},
      {"ipu", &S::ipu, "", "The IPU that transfers the stream."},
      {"bytes", &S::bytes, "bytes", "Bytes of all its transfers in a run."},
      {"cycles", &S::cycles, "cycles", "Cycles of all its transfers in a run."},
  };
  return rows;
}

const std::vector<Figure<StageReport>>& figures_of(const StageReport&) {
  using S = StageReport;
  static const std::vector<Figure<S>> rows = {
      {"stage", &S::stage, "", "The number of the stage."},
      {"ipu", &S::ipu, "", "The IPU that runs the stage."},
      {"cycles", &S::cycles, "cycles", "Cycles of a micro-batch, without weight updates."},
      {"blocks", &S::blocks, "", "The user's names of the blocks in the stage."},
  };
  return rows;
}

const std::vector<Figure<OpReport>>& figures_of(const OpReport&) {
  using O = OpReport;
  static const std::vector<Figure<O>> rows = {
      {"ipu", &O::ipu, "", "The IPU that runs the ops."},
      {"stage", &O::stage, "", "The stage of the pipeline."},
      {"block", &O::block, "", "The user's name of the block of the ops."},
      {"module", &O::module, "", "The path of the module of the ops."},
      {"op", &O::op, "",
       "The name of the op; the convolutions of a poptorch.MultiConv are one multi_conv, with one "
       "launch if its plan is parallel."},
      {"count", &O::count, "", "Executions in a run."},
      {"cycles", &O::cycles, "cycles", "Cycles of all executions in a run."},
      {"arithmetic_cycles", &O::arithmetic_cycles, "cycles",
       "Cycles of multiplications and of operations on elements, a part of the cycles."},
      {"vertex_cycles", &O::vertex_cycles, "cycles",
       "Cycles of launches, of loading weights and of summing partial results."},
      {"exchange_cycles", &O::exchange_cycles, "cycles",
       "Cycles of exchange between tiles and of rearrangement."},
      {"sync_cycles", &O::sync_cycles, "cycles", "Cycles of synchronising the tiles."},
  };
  return rows;
}

const std::vector<Figure<CollectiveReport>>& figures_of(const CollectiveReport&) {
  using C = CollectiveReport;
  static const std::vector<Figure<C>> rows = {
      {"ipu", &C::ipu, "", "The number of the IPU in each replica that takes part."},
      {"module", &C::module, "", "The path of the module."},
      {"op", &C::op, "", "The name of the collective."},
      {"part", &C::part, "", "The step that uses these links."},
      {"links", &C::links, "", "IPU-Links or GW-Links."},
      {"members", &C::members, "", "Number of replicas that take part."},
      {"count", &C::count, "", "Executions in a run."},
      {"bytes", &C::bytes, "bytes", "Bytes that the IPU sends in a run."},
      {"cycles", &C::cycles, "cycles", "Cycles in a run."},
  };
  return rows;
}

const std::vector<Figure<Report>>& figures_of(const Report&) {
  using R = Report;
  static const std::vector<Figure<R>> rows = {
      {"instances", &R::instances, "", "Number of processes among which the replicas are divided."},
      {"device", &R::device, "", "The device that is modelled."},
      {"replicas", &R::replicas, "", "Number of copies of the model in all processes."},
      {"idle_ipus", &R::idle_ipus, "",
       "IPUs of this process that autoRoundNumIPUs reserves and nothing uses."},
      {"streaming_bytes", &R::streaming_bytes, "bytes",
       "Bytes that a replica keeps in Streaming Memory."},
      {"streaming_capacity", &R::streaming_capacity, "bytes",
       "Bytes of Streaming Memory available to a replica."},
      {"bubbles", &R::bubbles, "share", "The share of their time in which the IPUs wait."},
      {"bottleneck_stage", &R::bottleneck_stage, "",
       "The stage with the most cycles per micro-batch."},
      {"cycles_per_run", &R::cycles_per_run, "cycles",
       "The cycles of the slowest IPU, waiting included."},
      {"seconds_per_run", &R::seconds_per_run, "seconds",
       "The time of those cycles at the device's clock."},
      {"generic_ops", &R::generic_ops, "",
       "Operators of torch that run through the generic kernel."},
      {"reference_kernels", &R::reference_kernels, "share",
       "By op without a fast kernel for its types: its share of the time of the runs so far."},
  };
  return rows;
}

const std::vector<Figure<RunTimes>>& figures_of(const RunTimes&) {
  using T = RunTimes;
  static const std::vector<Figure<T>> rows = {
      {"runs", &T::runs, "", "Number of runs so far."},
      {"run_seconds", &T::in_runs, "seconds", "Time spent in runs, by this host's clock."},
      {"between_runs_seconds", &T::between_runs, "seconds",
       "Time between runs, by this host's clock."},
  };
  return rows;
}

namespace {

template <typename T>
void add(std::vector<FigureText>& into, const char* list) {
  static constexpr const char* kTypes[] = {"int", "int",         "float",        "bool",
                                           "str", "list of str", "float by str", "int"};
  for (const Figure<T>& row : figures_of(T())) {
    into.push_back({list, std::string(row.name), kTypes[row.member.index()], std::string(row.unit),
                    std::string(row.doc)});
  }
}

}  // namespace

std::vector<FigureText> figure_texts() {
  std::vector<FigureText> all;
  add<MemoryReport>(all, "ipus");
  add<WorkReport>(all, "ipus");
  add<StreamReport>(all, "streams");
  add<StageReport>(all, "stages");
  add<OpReport>(all, "ops");
  add<CollectiveReport>(all, "collectives");
  add<Report>(all, "");
  add<RunTimes>(all, "");
  return all;
}

}  // namespace poptorch::account
