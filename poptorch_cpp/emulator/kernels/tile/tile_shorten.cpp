#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "emulator/kernels/sets/kernel_set.hpp"
#include "emulator/kernels/tile/tile_steps.hpp"
#include "support/strings.hpp"

namespace poptorch::emulator {
namespace {

using ir::DType;

class Shortener {
 public:
  Shortener(std::vector<TileStep>& steps, std::vector<Register>& registers,
            const std::vector<bool>& uniform, std::vector<int>& outputs)
      : steps_(steps), registers_(registers), uniform_(uniform), outputs_(outputs) {}

  void run() {
    drop_copies();
    count();
    for (size_t i = 0; i < steps_.size(); ++i) {
      if (steps_[i].op == "add") join_average(i);
      if (steps_[i].op == "div") join_ratio(i);
    }
    for (size_t i = 0; i < steps_.size(); ++i) {
      if (steps_[i].op == "accumulate") join_adam(i);
      if (steps_[i].op == "select") join_choice(i);
    }
    for (size_t i = 0; i < steps_.size(); ++i) join_pair(i);
    for (TileStep& step : steps_) {
      if (step.fn && step.halves) step.rounding ? store_halves(step) : hold_halves(step);
    }
    std::erase_if(steps_, [](const TileStep& step) { return step.fn == nullptr; });
    note_single_elements();
  }

 private:
  struct Product {
    int factor = -1, value = -1;
    bool squared = false;
    std::vector<int> parts;  // steps
  };

  bool is_float(int reg) const {
    return register_class(registers_[reg].dtype) == RegisterClass::kF32;
  }

  // Replaces the results of copies by their sources. A stored register keeps its own dtype.
  void drop_copies() {
    std::vector<int> stands_for(registers_.size());
    std::iota(stands_for.begin(), stands_for.end(), 0);
    std::vector<bool> made(registers_.size(), false), rounded(registers_.size(), false);
    for (TileStep& step : steps_) {
      for (int r : step.results) made[r] = true;
      for (int& source : step.sources) source = source < 0 ? source : stands_for[source];
      const bool assigns = step.op == "assign", rounds = step.op == "narrow";
      if (!assigns && !rounds && step.op != "cast") continue;
      const int from = step.sources[assigns ? 1 : 0], to = step.results[0];
      if (rounds && !(rounded[from] && registers_[from].dtype == registers_[to].dtype)) {
        rounded[to] = true;
        continue;
      }
      if (!is_float(from) || !is_float(to)) continue;
      const bool stored = std::find(outputs_.begin(), outputs_.end(), to) != outputs_.end();
      // An input may be another output's memory: its value must be taken before that is written.
      if ((assigns || stored) && !made[from]) continue;
      if (stored && registers_[from].dtype != registers_[to].dtype) continue;
      // Steps that round a wider number to `to` still do: rounding is a separate step.
      stands_for[to] = from;
      step.fn = nullptr;
    }
    for (int& output : outputs_) output = stands_for[output];
    std::erase_if(steps_, [](const TileStep& step) { return step.fn == nullptr; });
  }

  void count() {
    maker_.assign(registers_.size(), -1);
    uses_.assign(registers_.size(), 0);
    for (size_t s = 0; s < steps_.size(); ++s) {
      for (int r : steps_[s].results) maker_[r] = static_cast<int>(s);
      for (int r : steps_[s].sources) {
        if (r >= 0) ++uses_[r];
      }
    }
    for (int r : outputs_) ++uses_[r];
  }

  // Returns the step that makes `reg`, if it is `op` and has a single reader; else -1.
  int made_by(int reg, std::string_view op) const {
    const int step = maker_[reg];
    return step >= 0 && uses_[reg] == 1 && steps_[step].fn && steps_[step].op == op ? step : -1;
  }
  int rounds(int reg) const {
    const int step = made_by(reg, "narrow");
    return step >= 0 && registers_[reg].dtype == DType::kF16 ? step : -1;
  }
  // Returns the step that rounds the only use of `reg` to float16; else -1.
  int rounded_later(int reg) const {
    if (uses_[reg] != 1) return -1;
    for (size_t s = maker_[reg] + 1; s < steps_.size(); ++s) {
      if (!steps_[s].fn || steps_[s].op != "narrow" || steps_[s].sources[0] != reg) continue;
      return registers_[steps_[s].results[0]].dtype == DType::kF16 ? static_cast<int>(s) : -1;
    }
    return -1;
  }

  // Matches uniform · value, or uniform · value · value.
  bool find_product(int reg, Product& out) const {
    const int step = made_by(reg, "mul");
    if (step < 0) return false;
    out.parts.push_back(step);
    const int a = steps_[step].sources[0], b = steps_[step].sources[1];
    for (const auto& [x, y] : {std::pair{a, b}, std::pair{b, a}}) {
      if (!uniform_[x] || uniform_[y]) continue;
      out.factor = x, out.value = y;
      return true;
    }
    if (out.squared) return false;
    out.squared = true;
    return find_product(a, out) && out.value == b;
  }

  void join_average(size_t add) {
    const int sum = steps_[add].results[0];
    Product kept, added;
    if (registers_[sum].dtype != DType::kF32 || !find_product(steps_[add].sources[0], kept) ||
        kept.squared || !find_product(steps_[add].sources[1], added)) {
      return;
    }
    // Either both the sample and the result are rounded, or neither is.
    int rounding = rounded_later(sum);
    const int sampling = rounds(added.value);
    const bool half =
        rounding >= 0 && (sampling >= 0 || registers_[added.value].dtype == DType::kF16);
    if (!half) rounding = -1;
    if (half && sampling >= 0) {
      added.parts.push_back(sampling);
      added.value = steps_[sampling].sources[0];
    }
    const MicroFn fn = joined_.moving_average[half][added.squared];
    kept.parts.insert(kept.parts.end(), added.parts.begin(), added.parts.end());
    replace(static_cast<int>(add), rounding, kept.parts, "moving_average", fn,
            {kept.factor, kept.value, added.factor, added.value});
  }

  void join_ratio(size_t div) {
    const int quotient = steps_[div].results[0];
    if (!is_float(quotient) || registers_[quotient].dtype != DType::kF32) return;
    const int sum = made_by(steps_[div].sources[1], "add");
    if (sum < 0) return;
    const int eps = steps_[sum].sources[1], root = made_by(steps_[sum].sources[0], "sqrt");
    if (root < 0 || !uniform_[eps]) return;
    const int rounding = rounded_later(quotient);
    replace(static_cast<int>(div), rounding, {sum, root}, "root_ratio",
            joined_.root_ratio[rounding >= 0],
            {steps_[div].sources[0], steps_[root].sources[0], eps});
  }

  void join_choice(size_t select) {
    const TileStep& step = steps_[select];
    const int condition = step.sources[0], comparison = maker_[condition];
    if (comparison < 0 || uses_[condition] != 1 || !is_float(step.results[0])) return;
    const TileStep& compared = steps_[comparison];
    if (!compared.fn || !std::all_of(compared.sources.begin(), compared.sources.end(),
                                     [&](int r) { return r >= 0 && is_float(r); })) {
      return;
    }
    const auto choice = std::find_if(choices_.begin(), choices_.end(),
                                     [&](const Choice& c) { return c.comparison == compared.op; });
    if (choice == choices_.end()) return;
    const int a = compared.sources[0], b = compared.sources[1];
    replace(static_cast<int>(select), -1, {comparison}, "choose", choice->fn,
            {a, b, step.sources[1], step.sources[2]});
    steps_[select].held_fn = choice->held_fn;
    steps_[select].text += support::str(" by ", choice->comparison);
  }

  // Joins an operation with the one that makes an operand of it.
  void join_pair(size_t second) {
    const TileStep& step = steps_[second];
    if (!step.fn || step.rounding || !all_floats(step)) return;
    const bool commutes = step.op == "add" || step.op == "mul";
    for (const JoinedPair& pair : pairs_) {
      if (pair.second != step.op) continue;
      for (int place = pair.place; place <= (commutes ? 1 : pair.place); ++place) {
        int first = made_by(step.sources[place], pair.first);
        if (first < 0 && pair.first == "mul") first = made_by(step.sources[place], "square");
        if (first < 0 || steps_[first].rounding || !all_floats(steps_[first])) continue;
        const int x = steps_[first].sources.front(), y = steps_[first].sources.back();
        replace(static_cast<int>(second), -1, {first}, support::str(pair.first, "_", pair.second),
                pair.fn, {x, y, step.sources[1 - place]});
        steps_[second].held_fn = pair.held_fn;
        steps_[second].random_fn = pair.random_fn;
        return;
      }
    }
  }
  bool all_floats(const TileStep& step) const {
    const auto is = [&](int r) { return r >= 0 && is_float(r); };
    return std::all_of(step.sources.begin(), step.sources.end(), is) && is_float(step.results[0]);
  }

  // Returns the step that makes `reg` by this function; else -1.
  int made_with(int reg, MicroFn fn) const {
    return maker_[reg] >= 0 && steps_[maker_[reg]].fn == fn ? maker_[reg] : -1;
  }

  void join_adam(size_t accumulate) {
    TileStep& update = steps_[accumulate];
    const int ratio = made_by(update.sources[1], "root_ratio");
    if (ratio < 0) return;
    const int second = made_with(steps_[ratio].sources[1], joined_.moving_average[false][true]);
    const int plain = made_with(steps_[ratio].sources[0], joined_.moving_average[false][false]);
    const int half = made_with(steps_[ratio].sources[0], joined_.moving_average[true][false]);
    const int first = std::max(plain, half);
    if (first < 0 || second < 0) return;
    const TileStep &m = steps_[first], &v = steps_[second];
    if (m.sources[3] != v.sources[3]) return;
    // The averages move to the end of the joined steps: no other step may read them before.
    for (size_t s = 0; s < accumulate; ++s) {
      if (!steps_[s].fn || static_cast<int>(s) == ratio) continue;
      for (int r : steps_[s].sources) {
        if (r >= 0 && (r == m.results[0] || r == v.results[0])) return;
      }
    }
    const bool stored = half >= 0 && only_stored(m);
    const bool half_ratio = steps_[ratio].fn == joined_.root_ratio[true];
    const auto [fn, product] = joined_.adam[half >= 0][half_ratio][stored];
    TileStep joined{.op = "adam_step",
                    .fn = fn,
                    .product = product,
                    .sources = m.sources,
                    .results = {m.results[0], v.results[0], update.results[0]},
                    .immediates = update.immediates,
                    .text = {}};
    joined.sources.insert(joined.sources.end(), {v.sources[0], v.sources[1], v.sources[2],
                                                 steps_[ratio].sources[2], update.sources[0]});
    joined.text = support::str("%", support::join(joined.results, ", %"), " = adam_step %",
                               support::join(joined.sources, ", %"));
    for (int part : {first, second, ratio}) steps_[part].fn = nullptr;
    update = std::move(joined);
    for (int r : update.results) maker_[r] = static_cast<int>(accumulate);
  }

  // Returns true for an input of halves that nothing else reads.
  bool is_half_input(int reg) const {
    return reg >= 0 && maker_[reg] < 0 && uses_[reg] == 1 && !uniform_[reg] &&
           ir::is_half(registers_[reg].dtype);
  }

  // Lets an update read and write halves in memory, without a step that rounds. A gradient stays a
  // register of floats where the update rounds at random.
  void hold_halves(TileStep& step) {
    const int old = step.sources[0], fresh = step.results[0];
    if (!is_half_input(old) || uses_[fresh] != 1) return;
    const auto rounding = std::find_if(steps_.begin(), steps_.end(), [&](const TileStep& s) {
      const bool rounds = s.op == "narrow" || (s.op == "round_at_random" && s.rounding);
      return s.fn && rounds && s.sources[0] == fresh;
    });
    if (rounding == steps_.end()) return;
    const int rounded = rounding->results[0];
    const DType dtype = registers_[rounded].dtype;
    const bool stored = std::count(outputs_.begin(), outputs_.end(), rounded) == 1;
    if (!stored || uses_[rounded] != 1 || registers_[old].dtype != dtype) return;
    const int gradient = step.sources[step.halves->gradient];
    const bool random = rounding->rounding.has_value(), brain = dtype == DType::kBF16;
    const bool both = !random && is_half_input(gradient) && registers_[gradient].dtype == dtype;
    const HalfForm& form = random ? step.halves->at_random[brain] : step.halves->form[brain][both];
    if (!form.fn) return;
    step.rounding = rounding->rounding;
    step.takes_index_step = rounding->takes_index_step;
    registers_[old].as_stored = registers_[rounded].as_stored = true;
    if (both) registers_[gradient].as_stored = true;
    step.fn = form.fn;
    step.product = form.product;
    step.results[0] = rounded;
    maker_[rounded] = static_cast<int>(&step - steps_.data());
    step.text +=
        support::str(" in ", dtype, both ? ", with its gradient" : "", random ? ", at random" : "");
    rounding->fn = nullptr;
  }

  // Lets a step whose result is only stored round to halves in memory.
  void store_halves(TileStep& step) {
    const int result = step.results[0];
    if (uses_[result] != 1 || std::count(outputs_.begin(), outputs_.end(), result) != 1) return;
    const DType dtype = registers_[result].dtype;
    registers_[result].as_stored = true;
    step.fn = step.halves->form[dtype == DType::kBF16][0].fn;
    step.text += support::str(" in ", dtype);
  }

  // Returns true if an average's input and output are both float16 in memory and have no other use.
  bool only_stored(const TileStep& average) {
    const int old = average.sources[1], fresh = average.results[0];
    const bool outputs = std::count(outputs_.begin(), outputs_.end(), fresh) == 1;
    const bool alone = maker_[old] < 0 && uses_[old] == 1 && uses_[fresh] == 2;  // the ratio, too
    const bool halves = registers_[old].dtype == DType::kF16 && !uniform_[old];
    if (!outputs || !alone || !halves || registers_[fresh].dtype != DType::kF16) return false;
    registers_[old].as_stored = registers_[fresh].as_stored = true;
    return true;
  }

  // Puts one step in the place of the last of its parts.
  void replace(int last, int rounding, const std::vector<int>& parts, std::string op, MicroFn fn,
               std::vector<int> sources) {
    const int at = rounding >= 0 ? rounding : last;
    TileStep joined{.op = std::move(op),
                    .fn = fn,
                    .product = {},
                    .sources = std::move(sources),
                    .results = steps_[at].results,
                    .immediates = {},
                    .text = {}};
    joined.text = support::str("%", joined.results[0], " = ", joined.op, " %",
                               support::join(joined.sources, ", %"));
    for (int part : parts) steps_[part].fn = nullptr;
    steps_[last].fn = nullptr;
    steps_[at] = std::move(joined);
    maker_[steps_[at].results[0]] = at;
  }

  void note_single_elements() {
    std::set<int> whole(outputs_.begin(), outputs_.end()), first;
    for (const TileStep& step : steps_) {
      const bool average = step.op == "moving_average", ratio = step.op == "root_ratio";
      const bool adam = step.op == "adam_step";
      for (size_t k = 0; k < step.sources.size(); ++k) {
        const bool scalar = (average && k % 2 == 0) || (ratio && k == 2) ||
                            (adam && (k == 7 || (k < 7 && k % 2 == 0)));
        if (step.sources[k] >= 0) (scalar ? first : whole).insert(step.sources[k]);
      }
    }
    for (int reg : first) registers_[reg].first_only = !whole.contains(reg);
  }

  const JoinedSteps& joined_ = kernel_set().joined;
  const std::array<Choice, 6>& choices_ = kernel_set().choices;
  const std::array<JoinedPair, 20>& pairs_ = kernel_set().pairs;
  std::vector<TileStep>& steps_;
  std::vector<Register>& registers_;
  const std::vector<bool>& uniform_;
  std::vector<int>& outputs_;
  std::vector<int> maker_;  // of each register: its step, -1 for inputs and constants
  std::vector<int> uses_;   // of each register: by steps and outputs
};

}  // namespace

void shorten_steps(std::vector<TileStep>& steps, std::vector<Register>& registers,
                   const std::vector<bool>& uniform, std::vector<int>& outputs) {
  Shortener(steps, registers, uniform, outputs).run();
}

}  // namespace poptorch::emulator
