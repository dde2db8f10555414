#include "account/report_rows.hpp"

namespace poptorch::account {

const std::vector<Figure<MemoryReport>>& figures_of(const MemoryReport&) {
  using M = MemoryReport;
  static const std::vector<Figure<M>> rows = {
      {"state_bytes", &M::state_bytes, "bytes",
       "Weights, optimiser state, accumulators, buffers, constants and alignment."},
      {"arena_bytes", &M::arena_bytes, "bytes", "Activations and temporaries at their peak."},
      {"stash_bytes", &M::stash_bytes, "bytes",
       "Activations that wait for the backward pass of a pipeline."},
      {"code_bytes", &M::code_bytes, "bytes", "Code, an estimate."},
      {"capacity_bytes", &M::capacity_bytes, "bytes", "The memory of an IPU."},
      {"needed_bytes", &M::needed, "bytes", "State, arena, stash and code."},
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
      {"compute_cycles", &W::compute_cycles, "cycles", "Computing."},
      {"link_cycles", &W::link_cycles, "cycles", "Sending to other IPUs over IPU-Links."},
      {"host_cycles", &W::host_cycles, "cycles", "Transfers with the host."},
      {"streaming_cycles", &W::streaming_cycles, "cycles", "Transfers with Streaming Memory."},
      {"gateway_cycles", &W::gateway_cycles, "cycles", "Sending to other IPUs over GW-Links."},
      {"gateway_bytes", &W::gateway_bytes, "bytes", "Sent to other IPUs over GW-Links."},
      {"idle_cycles", &W::idle_cycles, "cycles", "Waiting, the rest of the run."},
      {"overlapped_cycles", &W::overlapped_cycles, "cycles",
       "Transfers through IO tiles, beside the rest; a part of the transfers."},
      {"link_bytes", &W::link_bytes, "bytes", "Sent to other IPUs over IPU-Links."},
      {"host_bytes", &W::host_bytes, "bytes", "To and from the host."},
      {"streaming_bytes", &W::streaming_bytes, "bytes", "To and from Streaming Memory."},
  };
  return rows;
}

const std::vector<Figure<StreamReport>>& figures_of(const StreamReport&) {
  using S = StreamReport;
  static const std::vector<Figure<S>> rows = {
      {"name", &S::name, "", "Its name."},
      {"to_device", &S::to_device, "", "Whether it is an input."},
      {"overlap", &S::overlap, "", "The loop that its transfers may overlap with, or none."},
      {"overlaps", &S::overlaps, "", "Whether they do."},
  };
  return rows;
}

const std::vector<Figure<StageReport>>& figures_of(const StageReport&) {
  using S = StageReport;
  static const std::vector<Figure<S>> rows = {
      {"stage", &S::stage, "", "The number of the stage."},
      {"ipu", &S::ipu, "", "The IPU that it runs on."},
      {"cycles", &S::cycles, "cycles", "Cycles of a micro-batch, without weight updates."},
      {"blocks", &S::blocks, "", "The user's names of the blocks that it runs."},
  };
  return rows;
}

const std::vector<Figure<OpReport>>& figures_of(const OpReport&) {
  using O = OpReport;
  static const std::vector<Figure<O>> rows = {
      {"ipu", &O::ipu, "", "The IPU that they run on."},
      {"stage", &O::stage, "", "The stage of the pipeline."},
      {"block", &O::block, "", "The user's name of their block."},
      {"module", &O::module, "", "The path of their module."},
      {"op", &O::op, "",
       "The name of the op; the convolutions of a poptorch.MultiConv are one multi_conv, with one "
       "launch if its plan is parallel."},
      {"count", &O::count, "", "Executions in a run."},
      {"cycles", &O::cycles, "cycles", "Cycles of all in a run."},
  };
  return rows;
}

const std::vector<Figure<CollectiveReport>>& figures_of(const CollectiveReport&) {
  using C = CollectiveReport;
  static const std::vector<Figure<C>> rows = {
      {"ipu", &C::ipu, "", "The IPU, of each replica that takes part."},
      {"module", &C::module, "", "The path of the module."},
      {"op", &C::op, "", "The name of the collective."},
      {"part", &C::part, "", "The step that uses these links."},
      {"links", &C::links, "", "IPU-Links or GW-Links."},
      {"members", &C::members, "", "Replicas that take part."},
      {"count", &C::count, "", "Executions in a run."},
      {"bytes", &C::bytes, "bytes", "Bytes that the IPU sends in a run."},
      {"cycles", &C::cycles, "cycles", "Cycles in a run."},
  };
  return rows;
}

const std::vector<Figure<Report>>& figures_of(const Report&) {
  using R = Report;
  static const std::vector<Figure<R>> rows = {
      {"instances", &R::instances, "", "Processes that share the replicas."},
      {"device", &R::device, "", "The machine that is modelled."},
      {"replicas", &R::replicas, "", "Copies of the model, in all processes."},
      {"idle_ipus", &R::idle_ipus, "",
       "IPUs of this process that autoRoundNumIPUs reserves and nothing uses."},
      {"streaming_bytes", &R::streaming_bytes, "bytes",
       "What a replica keeps in Streaming Memory."},
      {"streaming_capacity", &R::streaming_capacity, "bytes",
       "The share of a replica's IPUs in Streaming Memory."},
      {"bubbles", &R::bubbles, "share", "The part of their time in which the IPUs wait."},
      {"bottleneck_stage", &R::bottleneck_stage, "",
       "The stage with the most cycles a micro-batch."},
      {"cycles_per_run", &R::cycles_per_run, "cycles",
       "The cycles of the slowest IPU, waiting included."},
      {"seconds_per_run", &R::seconds_per_run, "seconds",
       "The time of those cycles at the device's clock."},
      {"generic_ops", &R::generic_ops, "",
       "Operators of torch that run through the generic kernel."},
      {"reference_kernels", &R::reference_kernels, "share",
       "The part of the time of the runs so far, by op without a fast kernel for its types."},
  };
  return rows;
}

const std::vector<Figure<RunTimes>>& figures_of(const RunTimes&) {
  using T = RunTimes;
  static const std::vector<Figure<T>> rows = {
      {"runs", &T::runs, "", "Runs so far."},
      {"run_seconds", &T::in_runs, "seconds", "The time in them, by this host's clock."},
      {"between_runs_seconds", &T::between_runs, "seconds",
       "The time between them, by this host's clock."},
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
