// Keeps a cursor into the list and a clock for each IPU.
#include "account/walk.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <string>

#include "account/cursor.hpp"
#include "account/simulate.hpp"
#include "support/saturate.hpp"
#include "support/table.hpp"

namespace poptorch::account {
namespace {

using program::Instruction;
using program::Program;
using support::saturating_product;
using support::saturating_sum;
using Kind = Instruction::Kind;
using Block = std::vector<Instruction>;

// Transfers of an IPU that the end of a pipeline's cycle carries.
struct Deferred {
  int64_t cycles = 0;
  std::vector<std::pair<const Instruction*, int64_t>> transfers;  // with their micro-batches

  void add(const Instruction& transfer, int64_t micro_batch) {
    cycles = saturating_sum(cycles, transfer.cycles);
    transfers.emplace_back(&transfer, micro_batch);
  }
};

// One IPU: its compute tiles work in the order of the list, its IO tiles concurrently.
class Machine {
 public:
  Machine(int ipu, const Block& body, const Rounds& walked, const Observer& observer)
      : ipu_(ipu),
        observer_(observer),
        cursor_(body, walked, observer ? Loops::kAll : Loops::kWithEvents) {}

  const Instruction* waiting = nullptr;  // for others
  int64_t clock = 0;
  bool done = false;
  Deferred to_host, to_ipus;
  Waits waits;

  // Runs up to the next exchange with other IPUs.
  void advance() {
    while (cursor_.next(clock)) {
      waiting = cursor_.instruction();
      if (waiting->kind == Kind::kSend || waiting->kind == Kind::kReceive ||
          waiting->kind == Kind::kSync) {
        return;
      }
      step(*waiting);
    }
    waiting = nullptr;
    done = true;
    clock = std::max(clock, io_clock_);
  }

  // Leaves a send to the end of the cycle, if the IPU is in one.
  bool defers(const Instruction& send) {
    if (!cursor_.end_of_cycle()) return false;
    wait_for_operands(send);
    to_ipus.add(send, cursor_.micro_batch());
    return true;
  }

  // Executes on the compute tiles.
  void work(const Instruction& instruction, int64_t cycles) {
    tell(instruction, false, clock, cycles);
    clock = saturating_sum(clock, cycles);
  }

  // Executes deferred transfers at the end of a cycle.
  void carry(Deferred& deferred, int64_t start) {
    for (const auto& [instruction, micro_batch] : deferred.transfers) {
      tell(*instruction, false, start, instruction->cycles, 1, micro_batch);
      start = saturating_sum(start, instruction->cycles);
    }
    deferred.cycles = 0;
    deferred.transfers.clear();
  }

  void wait_for_operands(const Instruction& instruction) {
    if (arriving_.empty()) return;
    for (program::TensorId id : instruction.inputs) {
      const auto found = arriving_.find(id);
      if (found == arriving_.end()) continue;
      clock = std::max(clock, found->second);
      arriving_.erase(found);
    }
  }

 private:
  void step(const Instruction& instruction) {
    if (cursor_.left_out() > 0) {
      skip(instruction);
      return;
    }
    if (cursor_.in_whole()) {
      work(instruction, instruction.cycles);
      return;
    }
    wait_for_operands(instruction);
    if (on_io_tiles(instruction)) {
      transfer(instruction);
      return;
    }
    const Instruction* end = cursor_.end_of_cycle();
    const bool host = instruction.kind == Kind::kStreamIn || instruction.kind == Kind::kStreamOut;
    if (host && end && program::carries_host(*end)) {
      to_host.add(instruction, cursor_.micro_batch());
      return;
    }
    if (instruction.pass == program::Pass::kUpdate) {
      for (int stream : of_accumulation_) taken_.erase(stream);
    }
    work(instruction, cursor_.enters() ? 0 : cycles_of(instruction));
  }

  // Accounts for the rounds of a loop that are not walked.
  void skip(const Instruction& loop) {
    const int64_t cycles = saturating_product(cursor_.left_out(), cursor_.last_round());
    tell(loop, false, clock, cycles, cursor_.left_out());
    if (uses_io_tiles(loop.blocks[0])) {
      tell(loop, true, clock, cycles, cursor_.left_out());
      io_clock_ = saturating_sum(io_clock_, cycles);
      for (auto& [stream, when] : taken_) when = saturating_sum(when, cycles);
    }
    clock = saturating_sum(clock, cycles);
  }

  void tell(const Instruction& instruction, bool io_tiles, int64_t start, int64_t cycles,
            int64_t rounds = 1) {
    tell(instruction, io_tiles, start, cycles, rounds, cursor_.micro_batch());
  }

  void tell(const Instruction& instruction, bool io_tiles, int64_t start, int64_t cycles,
            int64_t rounds, int64_t micro_batch) {
    if (!observer_ || cycles == 0) return;
    observer_({.instruction = &instruction,
               .ipu = ipu_,
               .io_tiles = io_tiles,
               .start = start,
               .cycles = cycles,
               .micro_batch = micro_batch + instruction.micro_batch_offset,
               .rounds = rounds});
  }

  void transfer(const Instruction& instruction) {
    const bool host = instruction.kind == Kind::kStreamIn || instruction.kind == Kind::kStreamOut;
    int64_t ready = clock;
    if (instruction.kind == Kind::kStreamIn) {
      // The transfer runs ahead: it is ready as soon as the previous one has been taken over.
      const auto taken = taken_.find(instruction.channel);
      if (taken != taken_.end()) ready = taken->second;
      const ir::Attr* loop = instruction.attrs.find("overlap");
      if (loop && std::get<std::string>(*loop) == "accumulation_loop") {
        of_accumulation_.insert(instruction.channel);
      }
    }
    ready = std::max(io_clock_, ready);
    tell(instruction, true, ready, instruction.cycles);
    io_clock_ = saturating_sum(ready, instruction.cycles);
    if (instruction.kind == Kind::kStreamIn) {
      taken_[instruction.channel] = clock = std::max(clock, io_clock_);
    } else if (!host) {
      for (program::TensorId id : instruction.outputs) arriving_[id] = io_clock_;
    }
  }

  int ipu_;
  const Observer& observer_;
  Cursor cursor_;
  int64_t io_clock_ = 0;                           // when the IO tiles are free
  std::map<program::TensorId, int64_t> arriving_;  // from Streaming Memory: when each arrives
  // The time when a stream's last transfer was taken over, in the loop that it overlaps with.
  std::map<int, int64_t> taken_;
  std::set<int> of_accumulation_;  // streams that overlap with the accumulation loop
};

class Machines {
 public:
  Machines(const Program& program, const Rounds& walked, const Observer& observer) {
    for (size_t i = 0; i < program.ipus.size(); ++i) {
      ipus_.emplace_back(static_cast<int>(i), program.ipus[i].body, walked, observer);
    }
  }

  Times run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (Machine& ipu : ipus_) moved |= advance(ipu);
      moved |= meet();
    }
    Times times{.cycles = latest()};
    for (const Machine& ipu : ipus_) times.waits.push_back(ipu.waits);
    return times;
  }

 private:
  // Runs an IPU until it waits for others; returns whether it moved.
  bool advance(Machine& ipu) {
    bool moved = false;
    while (!ipu.done) {
      if (!ipu.waiting) {
        ipu.advance();
        moved = true;
        if (ipu.done) break;
      }
      if (!exchange(ipu, *ipu.waiting)) break;
      ipu.waiting = nullptr;
      moved = true;
    }
    return moved;
  }

  // Returns whether the exchange takes place.
  bool exchange(Machine& ipu, const Instruction& instruction) {
    if (instruction.kind == Kind::kSync) return false;
    auto& queue = sent_[instruction.channel];
    if (instruction.kind == Kind::kSend) {
      if (ipu.defers(instruction)) return true;
      ipu.wait_for_operands(instruction);
      ipu.work(instruction, instruction.cycles);
      queue.push_back(ipu.clock);
      return true;
    }
    if (queue.empty()) return false;
    ipu.clock = std::max(ipu.clock, queue.front());
    queue.pop_front();
    return true;
  }

  // Continues IPUs that all wait at a sync. The end of a pipeline's cycle first carries its
  // transfers: those with the host, then those between IPUs.
  bool meet() {
    int64_t host = 0, links = 0;
    bool waiting = false;
    for (const Machine& ipu : ipus_) {
      if (ipu.done) continue;
      if (ipu.waiting->kind != Kind::kSync) return false;
      waiting = true;
      host = std::max(host, ipu.to_host.cycles);
      links = std::max(links, ipu.to_ipus.cycles);
    }
    const int64_t begin = latest(), between = saturating_sum(begin, host);
    const int64_t end = saturating_sum(between, links);
    for (Machine& ipu : ipus_) {
      if (ipu.done) continue;
      for (const auto& [send, micro_batch] : ipu.to_ipus.transfers) {
        sent_[send->channel].push_back(end);
      }
      ipu.waits.host = saturating_sum(ipu.waits.host, host - ipu.to_host.cycles);
      ipu.waits.links = saturating_sum(ipu.waits.links, links - ipu.to_ipus.cycles);
      ipu.carry(ipu.to_host, begin);
      ipu.carry(ipu.to_ipus, between);
      ipu.clock = end;
      ipu.work(*ipu.waiting, ipu.waiting->cycles);
      ipu.waiting = nullptr;
    }
    return waiting;
  }

  int64_t latest() const {
    int64_t latest = 0;
    for (const Machine& ipu : ipus_) latest = std::max(latest, ipu.clock);
    return latest;
  }

  support::Table<int, Machine> ipus_;
  std::map<int, std::deque<int64_t>> sent_;  // by channel: when each message arrives
};

}  // namespace

Times walk(const Program& program, const Rounds& walked, const Observer& observer) {
  return Machines(program, walked, observer).run();
}

}  // namespace poptorch::account
