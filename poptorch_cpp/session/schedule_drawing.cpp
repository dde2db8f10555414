// Draws a schedule as text.
#include <cmath>
#include <map>
#include <set>

#include "session/schedule.hpp"
#include "support/strings.hpp"

namespace poptorch::session {
namespace {

using support::str;
using Row = std::vector<std::string>;
using Lines = std::vector<std::pair<std::string, Row>>;

std::vector<Row> work_rows(const Schedule& schedule) {
  // `kinds` says whether a cell works forward and backward; `order` is that of the IPU's work.
  struct Cell {
    size_t ipu, step;
    int64_t stage, micro_batch;
    auto operator<=>(const Cell&) const = default;
  };
  std::map<Cell, std::pair<bool, bool>> kinds;
  std::vector<Cell> order;
  bool trains = false;
  for (size_t i = 0; i < schedule.work.size(); ++i) {
    const account::StageWork& work = schedule.work[i];
    const Cell cell{static_cast<size_t>(work.ipu), static_cast<size_t>(schedule.work_steps[i]),
                    work.stage, work.micro_batch};
    if (!kinds.contains(cell)) order.push_back(cell);
    (work.backward ? kinds[cell].second : kinds[cell].first) = true;
    trains |= work.backward;
  }
  std::vector<Row> rows(static_cast<size_t>(schedule.ipus),
                        Row(static_cast<size_t>(schedule.steps)));
  for (const Cell& cell : order) {
    const auto& [forward, backward] = kinds[cell];
    rows[cell.ipu][cell.step] +=
        str(trains && forward ? "F" : "", trains && backward ? "B" : "", cell.micro_batch);
  }
  return rows;
}

std::map<int, Row> transfer_rows(const Schedule& schedule) {
  constexpr const char* kLetters[] = {"<", ">", "L", "S"};  // by account::Transfer::Kind
  using Counts = std::vector<std::pair<std::string, int>>;  // in the order of the transfers
  std::vector<std::pair<int, int64_t>> order;
  std::map<std::pair<int, int64_t>, Counts> counts;  // by IPU and step
  for (size_t i = 0; i < schedule.transfers.size(); ++i) {
    const account::Transfer& move = schedule.transfers[i];
    std::string text = str(move.io_tiles ? "~" : "", kLetters[static_cast<size_t>(move.kind)]);
    const bool with_host =
        move.kind == account::Transfer::Kind::kIn || move.kind == account::Transfer::Kind::kOut;
    if (with_host) text += std::to_string(move.micro_batch);
    Counts& here = counts[{move.ipu, schedule.transfer_steps[i]}];
    bool known = false;
    for (auto& [other, count] : here) {
      if (other != text) continue;
      count += 1;
      known = true;
    }
    if (!known) here.emplace_back(text, 1);
  }
  std::map<int, Row> rows;
  for (const auto& [place, texts] : counts) {
    Row& row = rows.try_emplace(place.first, static_cast<size_t>(schedule.steps)).first->second;
    for (const auto& [text, count] : texts) {
      const bool is_numbered = std::isdigit(static_cast<unsigned char>(text.back())) != 0;
      row[place.second] += is_numbered ? text : str(text, count);
    }
  }
  return rows;
}

Row legend(const Schedule& schedule) {
  // nearbyint() rounds halves to even, as Python does.
  Row lines = {str(schedule.stages, " stages, bubbles ", std::nearbyint(schedule.bubbles * 100),
                   "%, slowest stage ", schedule.bottleneck)};
  for (size_t ipu = 0; ipu < schedule.blocks.size(); ++ipu) {
    const auto& blocks = schedule.blocks[ipu];
    if (blocks.empty()) continue;
    lines.push_back(str("IPU ", ipu, " runs block", blocks.size() > 1 ? "s " : " ",
                        support::join(blocks, ", ")));
  }
  if (schedule.io_tiles > 0) {
    lines.push_back(str(schedule.io_tiles, " IO tiles an IPU; ~ transfers through them"));
  }
  for (const account::StreamReport& stream : schedule.streams) {
    if (stream.overlap == "none") continue;
    std::string loop = stream.overlap;
    for (char& letter : loop) letter = letter == '_' ? ' ' : letter;
    lines.push_back(str(stream.to_device ? "input " : "output ", stream.name, " overlaps with the ",
                        loop, stream.overlaps ? "" : ", which has a single round"));
  }
  return lines;
}

// Returns the text without trailing blanks.
std::string stripped(std::string text) {
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

}  // namespace

std::string draw(const Schedule& schedule) {
  const auto steps = static_cast<size_t>(schedule.steps);
  Lines lines = {{"step", {}}};
  for (size_t step = 0; step < steps; ++step) lines[0].second.push_back(std::to_string(step));
  if (!schedule.phases.empty()) {
    lines.push_back({"phase", {}});
    for (const int phase : schedule.phases) lines.back().second.push_back(std::to_string(phase));
  }
  const auto moves = transfer_rows(schedule);
  const auto work = work_rows(schedule);
  for (size_t ipu = 0; ipu < work.size(); ++ipu) {
    lines.emplace_back(str("IPU ", ipu), work[ipu]);
    const auto found = moves.find(static_cast<int>(ipu));
    if (found != moves.end()) lines.emplace_back(str("I/O ", ipu), found->second);
  }
  for (int64_t i = 0; i < schedule.idle_ipus; ++i) lines.emplace_back("idle", Row(steps));
  size_t width = 0;
  for (const auto& [name, row] : lines) {
    for (const std::string& text : row) width = std::max(width, text.size() + 1);
  }
  Row drawn;
  for (auto& [name, row] : lines) {
    std::string line = name + std::string(name.size() < 7 ? 7 - name.size() : 0, ' ');
    for (const std::string& text : row) {
      const std::string shown = text.empty() ? "." : text;
      line += shown + std::string(width - shown.size(), ' ');
    }
    drawn.push_back(stripped(line));
  }
  for (std::string& line : legend(schedule)) drawn.push_back(std::move(line));
  return support::join(drawn, "\n");
}

}  // namespace poptorch::session
