// Walks each IPU's list once, and simulates the time of a run.
#include "account/report.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <tuple>

#include "account/rounds.hpp"
#include "account/simulate.hpp"
#include "program/collective_cost.hpp"
#include "program/op_work.hpp"
#include "support/saturate.hpp"
#include "target/device.hpp"

namespace poptorch::account {
namespace {

using program::Instruction;
using program::Program;
using support::saturating_product;
using Kind = Instruction::Kind;

// Adds up the work of the IPUs in one run.
class Account {
 public:
  explicit Account(const Program& program) : program_(program) {}

  void add(int ipu, WorkReport& work) {
    ipu_ = ipu;
    work_ = &work;
    unplaced_ = 0;
    walk(program_.ipus[ipu].body, 1);
    const auto first = std::find_if(stages_.begin(), stages_.end(),
                                    [&](const auto& entry) { return entry.first.second == ipu; });
    (first == stages_.end() ? stages_[{0, ipu}] : first->second) += unplaced_;
  }

  std::vector<StageReport> stages() const {
    std::vector<StageReport> found;
    const int64_t micro_batches = std::max<int64_t>(program_.micro_batches_per_run, 1);
    std::map<StagePlace, int64_t> merged;
    for (const auto& [place, cycles] : stages_) add(merged[home_of(place)], cycles);
    for (const auto& [place, cycles] : merged) {
      const auto named = blocks_.find(place);
      found.push_back({place.first, place.second, cycles / micro_batches,
                       named == blocks_.end() ? std::vector<std::string>() : named->second});
    }
    return found;
  }

  std::vector<OpReport> ops() const {
    std::vector<OpReport> found;
    for (const auto& [key, total] : ops_) {
      const auto& [ipu, stage, block, module, op] = key;
      found.push_back(
          {ipu, stage, block, module, op, total.count, total.cycles,
           target::whole_cycles(total.terms.arithmetic), target::whole_cycles(total.terms.vertex),
           target::whole_cycles(total.terms.exchange), target::whole_cycles(total.terms.sync)});
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const OpReport& a, const OpReport& b) { return a.cycles > b.cycles; });
    return found;
  }

  std::vector<CollectiveReport> collectives() const {
    std::vector<CollectiveReport> found;
    for (const auto& [key, total] : collectives_) {
      const auto& [ipu, module, op, part, links, members] = key;
      found.push_back(
          {ipu, module, op, part, links, members, total.count, total.bytes, total.cycles});
    }
    std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
      return std::pair(a.ipu, -a.cycles) < std::pair(b.ipu, -b.cycles);
    });
    return found;
  }

  std::vector<std::string> generic_ops() const { return {schemas_.begin(), schemas_.end()}; }

 private:
  using StagePlace = std::pair<int, int>;  // a stage on an IPU

  struct Total {
    int64_t count = 0, cycles = 0, bytes = 0;
    target::Terms terms = {};
  };

  void walk(const std::vector<Instruction>& block, int64_t times) {
    for (const Instruction& instruction : block) {
      const bool loop = instruction.kind == Kind::kLoop;
      step(instruction, times);
      if (instruction.kind == Kind::kIf) {
        walk_branches(instruction, times);
      } else if (loop) {
        walk(instruction.blocks[0], saturating_product(times, instruction.count));
      }
    }
  }

  // Counts the longer branch: it is unknown which one runs.
  void walk_branches(const Instruction& instruction, int64_t times) {
    walk(instruction.blocks[longer_branch(instruction)], times);
  }

  static void add(int64_t& sum, int64_t more) { sum = support::saturating_sum(sum, more); }

  // Returns the stage that work counts for. An IPU may stash an arrival during a stage that other
  // IPUs compute; this counts for its next stage, or its last.
  StagePlace home_of(StagePlace place) const {
    if (computing_.count(place)) return place;
    const auto [stage, ipu] = place;
    StagePlace home = place;
    bool others = false;
    for (const StagePlace& each : computing_) {
      others = others || each.first == stage;
      if (each.second != ipu || (home != place && home.first > stage)) continue;
      home = each;
    }
    return others ? home : place;
  }

  void step(const Instruction& instruction, int64_t times) {
    // The time of a receive counts as the sender's.
    const int64_t cycles =
        instruction.kind == Kind::kReceive ? 0 : saturating_product(times, instruction.cycles);
    if (on_io_tiles(instruction)) add(work_->overlapped_cycles, cycles);
    switch (instruction.kind) {
      case Kind::kSend:
        add(work_->link_cycles, cycles);
        add(work_->link_bytes, saturating_product(times, moved_bytes(program_, instruction)));
        break;
      case Kind::kStreamIn:
      case Kind::kStreamOut:
        add(work_->host_cycles, cycles);
        add(work_->host_bytes, saturating_product(times, moved_bytes(program_, instruction)));
        break;
      case Kind::kOffChipLoad:
      case Kind::kOffChipStore:
        add(work_->streaming_cycles, cycles);
        add(work_->streaming_bytes, saturating_product(times, moved_bytes(program_, instruction)));
        break;
      default:
        add(work_->compute_cycles, cycles - exchanged(instruction, times));
    }
    if (instruction.kind == Kind::kLoop || instruction.kind == Kind::kIf) return;
    if (instruction.pass != program::Pass::kUpdate && instruction.kind != Kind::kReceive) {
      add(instruction.stage < 0 ? unplaced_ : stages_[{instruction.stage, ipu_}], cycles);
    }
    if (instruction.kind != Kind::kCompute) return;
    const int stage = std::max(instruction.stage, 0);
    computing_.insert({stage, ipu_});
    note_block(instruction.block.text(), {stage, ipu_});
    const Instruction& first = first_of(instruction, stage);
    const char* several = instruction.attrs.find("multi_conv") ? "multi_" : "";
    Total& total = ops_[{ipu_, stage, first.block.text(), first.scope.text(),
                         several + instruction.op.text()}];
    if (first.op_id == instruction.op_id) add(total.count, times);
    add(total.cycles, cycles);
    add_terms(total.terms, instruction, static_cast<double>(times));
    if (const ir::Attr* schema = instruction.attrs.find("schema")) {
      schemas_.insert(std::get<std::string>(*schema));
    }
  }

  void add_terms(target::Terms& sum, const Instruction& instruction, double times) const {
    if (instruction.collective) return;
    const target::Terms terms = program::known_terms(program_, instruction);
    sum.arithmetic += times * terms.arithmetic;
    sum.vertex += times * terms.vertex;
    sum.exchange += times * terms.exchange;
    sum.sync += times * terms.sync;
  }

  // Returns the cycles of a collective, the sum over its parts.
  int64_t exchanged(const Instruction& instruction, int64_t times) {
    int64_t all = 0;
    for (const program::CollectivePart& part : program::collective_parts(program_, instruction)) {
      const char* links = part.gateway ? "GW-Links" : "IPU-Links";
      Total& total = collectives_[{ipu_, instruction.scope.text(), instruction.op.text(),
                                   std::string(part.name), links, part.members}];
      const int64_t cycles = saturating_product(times, part.cycles);
      const int64_t bytes = saturating_product(times, part.bytes);
      add(part.gateway ? work_->gateway_cycles : work_->link_cycles, cycles);
      add(part.gateway ? work_->gateway_bytes : work_->link_bytes, bytes);
      add(total.count, times);
      add(total.cycles, cycles);
      add(total.bytes, bytes);
      add(all, cycles);
    }
    return all;
  }

  // Returns the first convolution of a MultiConv: all of them count as one op, in its place.
  const Instruction& first_of(const Instruction& instruction, int stage) {
    const ir::Attr* group = instruction.attrs.find("multi_conv");
    if (!group) return instruction;
    const std::tuple key{ipu_, stage, std::get<int64_t>(*group), instruction.op.text()};
    return *multi_convs_.try_emplace(key, &instruction).first->second;
  }

  void note_block(const std::string& name, StagePlace place) {
    if (name.empty()) return;
    std::vector<std::string>& names = blocks_[place];
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }

  const Program& program_;
  int ipu_ = 0;
  WorkReport* work_ = nullptr;
  int64_t unplaced_ = 0;  // cycles of the IPU without a stage: they count for its first
  std::map<StagePlace, int64_t> stages_;  // cycles of a run
  std::set<StagePlace> computing_;        // those with ops
  std::map<StagePlace, std::vector<std::string>> blocks_;
  std::map<std::tuple<int, int, std::string, std::string, std::string>, Total> ops_;
  std::map<std::tuple<int, int, int64_t, std::string>, const Instruction*> multi_convs_;
  std::map<std::tuple<int, std::string, std::string, std::string, std::string, int>, Total>
      collectives_;
  std::set<std::string> schemas_;
};

int64_t idle_ipus(const Program& program, int instances) {
  const auto replicas = static_cast<uint64_t>(program.replicas / instances);
  const uint64_t needed = replicas * program.ipus.size();
  return static_cast<int64_t>(std::bit_ceil(needed) - needed);
}

// IPUs of one IPU-Machine share its Streaming Memory.
constexpr int64_t kIpusPerMachine = 4;

void add_work(const Program& program, const Times& times, Report& report) {
  Account account(program);
  double idle = 0;
  for (size_t i = 0; i < program.ipus.size(); ++i) {
    WorkReport& work = report.work.emplace_back();
    account.add(static_cast<int>(i), work);
    int64_t busy = 0;
    for (int64_t part : {work.compute_cycles, work.link_cycles, work.gateway_cycles,
                         work.host_cycles, work.streaming_cycles}) {
      busy = support::saturating_sum(busy, part);
    }
    work.idle_cycles = report.cycles_per_run - busy + work.overlapped_cycles;
    work.host_wait_cycles = times.waits[i].host;
    work.link_wait_cycles = times.waits[i].links;
    idle += static_cast<double>(work.idle_cycles);
  }
  const auto ipus = static_cast<double>(program.ipus.size());
  const auto cycles = static_cast<double>(report.cycles_per_run);
  report.bubbles = cycles > 0 ? idle / (ipus * cycles) : 0;
  report.stages = account.stages();
  report.ops = account.ops();
  report.collectives = account.collectives();
  report.generic_ops = account.generic_ops();
  int64_t most = -1;
  for (const StageReport& stage : report.stages) {
    if (stage.cycles > most) report.bottleneck_stage = stage.stage, most = stage.cycles;
  }
}

void note_transfers(const Program& program, const std::vector<Instruction>& block, int ipu,
                    int64_t times, std::vector<StreamReport>& streams) {
  for (const Instruction& instruction : block) {
    if (instruction.kind == Kind::kStreamIn || instruction.kind == Kind::kStreamOut) {
      StreamReport& stream = streams[instruction.channel];
      stream.ipu = ipu;
      const int64_t bytes = saturating_product(times, moved_bytes(program, instruction));
      stream.bytes = support::saturating_sum(stream.bytes, bytes);
      const int64_t cycles = saturating_product(times, instruction.cycles);
      stream.cycles = support::saturating_sum(stream.cycles, cycles);
      if (const ir::Attr* overlap = instruction.attrs.find("overlap")) {
        stream.overlap = std::get<std::string>(*overlap);
        stream.overlaps = on_io_tiles(instruction);
      }
    }
    const bool loop = instruction.kind == Kind::kLoop;
    for (const auto& inner : instruction.blocks) {
      note_transfers(program, inner, ipu,
                     loop ? saturating_product(times, instruction.count) : times, streams);
    }
  }
}

void add_streams(const Program& program, Report& report) {
  for (const program::Stream& stream : program.streams) {
    report.streams.push_back({.name = stream.host.name.text(), .to_device = stream.host.to_device});
  }
  for (size_t ipu = 0; ipu < program.ipus.size(); ++ipu) {
    note_transfers(program, program.ipus[static_cast<int>(ipu)].body, static_cast<int>(ipu), 1,
                   report.streams);
  }
}

}  // namespace

int64_t moved_bytes(const Program& program, const Instruction& instruction) {
  const bool in = instruction.inputs.empty() || instruction.kind == Kind::kOffChipLoad;
  const program::TensorId id = (in ? instruction.outputs : instruction.inputs)[0];
  return program.tensors[id].type.bytes();
}

int64_t kept_bytes(const program::State& state) {
  return (state.slot.type.bytes() + state.shards - 1) / state.shards;
}

MemoryReport memory_of(const Program& program, int ipu) {
  const auto& own = program.ipus[ipu];
  MemoryReport memory{.state_bytes = own.state_bytes + own.constant_bytes,
                      .arena_bytes = own.arena_bytes,
                      .code_bytes = own.code_bytes,
                      .capacity_bytes = target::find_device(program.device).sram(),
                      .stash_bytes = program::stash_bytes(program, ipu),
                      .constant_bytes = own.constant_bytes};
  for (const program::State& state : program.states) {
    if (state.ipu != ipu || !state.on_chip) continue;
    const int64_t bytes = kept_bytes(state);
    if (state.slot.kind == "parameter") memory.weight_bytes += bytes;
    if (state.slot.kind == "optimiser_state") memory.optimiser_bytes += bytes;
    if (state.slot.kind == "accumulator") memory.accumulator_bytes += bytes;
  }
  return memory;
}

StreamingReport streaming_of(const Program& program) {
  const auto ipus = static_cast<int64_t>(program.ipus.size());
  StreamingReport streaming{.capacity_bytes = target::find_device(program.device).streaming_memory *
                                              ipus / kIpusPerMachine};
  for (const ir::RemoteBuffer& buffer : program.remote_buffers) {
    streaming.buffer_bytes += buffer.type.bytes() * buffer.entries;
  }
  for (const program::State& state : program.states) {
    if (state.on_chip) continue;
    const std::string& kind = state.slot.kind;
    int64_t& bytes = kind == "optimiser_state" ? streaming.optimiser_bytes
                     : kind == "accumulator"   ? streaming.accumulator_bytes
                                               : streaming.weight_bytes;
    bytes += kept_bytes(state);
  }
  return streaming;
}

Report make_report(const Program& program, int instances) {
  const target::Device& device = target::find_device(program.device);
  Report report;
  for (size_t i = 0; i < program.ipus.size(); ++i) {
    report.ipus.push_back(memory_of(program, static_cast<int>(i)));
  }
  const StreamingReport streaming = streaming_of(program);
  report.streaming_bytes = streaming.needed();
  report.streaming_capacity = streaming.capacity_bytes;
  report.device = program.device;
  report.replicas = program.replicas;
  report.instances = instances;
  add_streams(program, report);
  report.idle_ipus = idle_ipus(program, instances);
  const Times times = simulate(program);
  report.cycles_per_run = times.cycles;
  report.seconds_per_run = static_cast<double>(report.cycles_per_run) / device.clock;
  add_work(program, times, report);
  return report;
}

}  // namespace poptorch::account
