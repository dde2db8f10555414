#include "program/multi_conv.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

#include "program/op_work.hpp"
#include "target/device.hpp"

namespace poptorch::program {
namespace {

constexpr double kMoreTime = 1.02;  // from one attempt to the next

class Group {
 public:
  Group(const Program& program, std::vector<Instruction*> members)
      : program_(program),
        members_(std::move(members)),
        tiles_(target::find_device(program.device).tiles - program.io_tiles) {}

  void plan() {
    const auto count = static_cast<int64_t>(members_.size());
    if (count < 2 || count > tiles_) return;
    least_ = std::clamp<int64_t>(number("reserved_tiles", 50), 1, tiles_ / count);
    double slowest = 0;
    for (const Instruction* member : members_) slowest = std::max(slowest, cycles(*member, tiles_));
    const ir::Attr* back_off = members_[0]->attrs.find("cycle_back_off");
    double limit = slowest * (1 + (back_off ? std::get<double>(*back_off) : 0.1));
    while (!fits(limit)) limit *= kMoreTime;
    assign();
  }

 private:
  int64_t number(std::string_view name, int64_t otherwise) const {
    const ir::Attr* attr = members_[0]->attrs.find(name);
    return attr ? std::get<int64_t>(*attr) : otherwise;
  }

  OpCost cost(const Instruction& member, int64_t tiles) const {
    Instruction planned = member;
    planned.attrs.set("tiles", tiles);
    return op_cost(program_, planned, {});
  }
  double cycles(const Instruction& member, int64_t tiles) const {
    return cost(member, tiles).terms.total();
  }

  // Returns whether every convolution takes at most `limit` cycles; sets their tiles. Each has at
  // least an equal part of the tiles in the end, because every time is reached at last.
  bool fits(double limit) {
    const int64_t most = tiles_ - least_ * (std::ssize(members_) - 1);
    int64_t left = tiles_;
    shares_.clear();
    for (const Instruction* member : members_) {
      int64_t low = least_, high = most;
      if (cycles(*member, high) > limit) return false;
      while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (cycles(*member, middle) <= limit) {
          high = middle;
        } else {
          low = middle + 1;
        }
      }
      shares_.push_back(low);
      left -= low;
    }
    return left >= 0;
  }

  void assign() {
    size_t slowest = 0;
    int64_t temporary = 0;
    for (size_t i = 0; i < members_.size(); ++i) {
      Instruction& member = *members_[i];
      member.attrs.set("tiles", shares_[i]);
      const OpCost found = op_cost(program_, member, {});
      member.cycles = target::whole_cycles(found.terms.total());
      temporary += found.temporary_bytes;
      if (member.cycles > members_[slowest]->cycles) slowest = i;
    }
    for (size_t i = 0; i < members_.size(); ++i) {
      if (i != slowest) members_[i]->cycles = 0;
      members_[i]->temporary.bytes = i == slowest ? temporary : 0;
    }
  }

  const Program& program_;
  std::vector<Instruction*> members_;
  int64_t tiles_, least_ = 1;
  std::vector<int64_t> shares_;
};

void plan_block(const Program& program, std::vector<Instruction>& block) {
  std::map<std::tuple<int64_t, std::string, int>, std::vector<Instruction*>> groups;
  for (Instruction& instruction : block) {
    for (std::vector<Instruction>& inner : instruction.blocks) plan_block(program, inner);
    const ir::Attr* group = instruction.attrs.find("multi_conv");
    if (!group || instruction.attrs.find("plan")) continue;  // a serial plan
    groups[{std::get<int64_t>(*group), instruction.op.text(), instruction.stage}].push_back(
        &instruction);
  }
  for (auto& [key, members] : groups) Group(program, std::move(members)).plan();
}

}  // namespace

void plan_multi_convs(Program& program) {
  for (IpuProgram& ipu : program.ipus) plan_block(program, ipu.body);
}

}  // namespace poptorch::program
