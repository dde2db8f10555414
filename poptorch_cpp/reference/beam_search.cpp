// The kernel of ctc_beam_search.
#include <algorithm>

#include "reference/beam.hpp"
#include "reference/kernels.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::reference {

Beam::Beam(int64_t classes, int64_t blank, int64_t width)
    : classes_(static_cast<int32_t>(classes)),
      blank_(static_cast<int32_t>(blank)),
      width_(static_cast<size_t>(width)) {
  beam_.push_back({.prefix = kRoot, .blank = 0});
}

void Beam::advance(const double* scores) {
  std::vector<Candidate> next;
  std::map<std::pair<int32_t, int32_t>, size_t> kept;  // of the beam, by parent and class
  for (const Candidate& path : beam_) {
    const Prefix& prefix = prefix_of(path);
    if (path.prefix != kRoot) kept[{prefix.parent, prefix.last}] = next.size();
    const double stays = prefix.last < 0 ? kNever : path.other + scores[prefix.last];
    next.push_back({.prefix = path.prefix, .blank = path.total() + scores[blank_], .other = stays});
  }
  for (const Candidate& path : beam_) {
    const double total = path.total();
    for (int32_t c = 0; c < classes_; ++c) {
      if (c == blank_) continue;
      const double score = scores[c] + (prefix_of(path).last == c ? path.blank : total);
      if (!(score > kNever)) continue;
      if (const auto known = kept.find({path.prefix, c}); known != kept.end()) {
        double& other = next[known->second].other;
        other = log_sum(other, score);
      } else {
        next.push_back({.parent = path.prefix, .last = c, .other = score});
      }
    }
  }
  keep_best(std::move(next));
}

std::vector<std::pair<double, std::vector<int64_t>>> Beam::paths(size_t count) const {
  std::vector<std::pair<double, std::vector<int64_t>>> result;
  for (const Candidate& path : beam_) {
    if (result.size() == count || !(path.total() > kNever)) break;
    std::vector<int64_t> classes;
    for (int32_t p = path.prefix; p != kRoot; p = prefixes_[p].parent) {
      classes.push_back(prefixes_[p].last);
    }
    std::reverse(classes.begin(), classes.end());
    result.emplace_back(path.total(), std::move(classes));
  }
  return result;
}

// Keeps the best candidates; among equals, those that were found first.
void Beam::keep_best(std::vector<Candidate> next) {
  std::vector<std::pair<double, size_t>> order;
  for (size_t i = 0; i < next.size(); ++i) {
    const double total = next[i].total();
    order.emplace_back(total > kNever ? -total : -kNever, i);  // NaN counts as kNever
  }
  const size_t count = std::min(width_, order.size());
  const auto end = order.begin() + static_cast<int64_t>(count);
  if (count < order.size()) std::nth_element(order.begin(), end, order.end());
  std::sort(order.begin(), end);
  beam_.clear();
  for (size_t i = 0; i < count; ++i) {
    Candidate& path = next[order[i].second];
    if (path.prefix < 0) path.prefix = number_of(path.parent, path.last);
    beam_.push_back(path);
  }
}

// A prefix that had left the beam returns with its number: longer prefixes may still be there.
int32_t Beam::number_of(int32_t parent, int32_t last) {
  const auto [row, added] =
      numbers_.try_emplace({parent, last}, static_cast<int32_t>(prefixes_.size()));
  if (added) prefixes_.push_back({.parent = parent, .last = last});
  return row->second;
}

namespace {

void ctc_beam_search(const KernelCall& call) {
  const Args a(call);
  const int64_t time = a.shape(0)[0], batch = a.shape(0)[1], classes = a.shape(0)[2];
  const int64_t blank = a.integer("blank"), count = a.integer("top_paths");
  const Doubles x = a.in(0);
  const Integers lengths = a.ints(1);
  Doubles scores(static_cast<size_t>(batch * count), -std::numeric_limits<double>::infinity());
  Integers path_lengths(scores.size(), 0);
  Integers paths(static_cast<size_t>(batch * count * time), blank);
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t length = lengths[b];
    if (length < 0 || length > time) {
      throw support::UserError(support::str("[", a.op(), "] length ", length, " of sequence ", b,
                                            " is not in [0, ", time, "]. Correct the lengths."));
    }
    Beam beam(classes, blank, a.integer("beam_width"));
    for (int64_t t = 0; t < length; ++t) beam.advance(x.data() + (t * batch + b) * classes);
    auto place = static_cast<size_t>(b * count);
    for (const auto& [score, path] : beam.paths(static_cast<size_t>(count))) {
      scores[place] = score;
      path_lengths[place] = std::ssize(path);
      std::copy(path.begin(), path.end(), paths.begin() + static_cast<int64_t>(place) * time);
      ++place;
    }
  }
  a.out(0, scores);
  a.out(1, path_lengths);
  a.out(2, paths);
}

}  // namespace

void add_beam_search_kernels(Table& table) { table["ctc_beam_search"] = {ctc_beam_search}; }

}  // namespace poptorch::reference
