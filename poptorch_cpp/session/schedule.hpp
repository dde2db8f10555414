// The schedule of a program as data, and drawn as the guide's figures are.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "session/session.hpp"

namespace poptorch::session {

struct Schedule {
  int64_t ipus = 0, idle_ipus = 0, stages = 0, steps = 0, io_tiles = 0;
  std::vector<std::vector<std::string>> blocks;  // by IPU: the names of its blocks
  std::vector<int> phases;                       // by step; none without phases
  // Work and transfers are the timeline's; each has its step.
  std::vector<account::StageWork> work;
  std::vector<int64_t> work_steps;
  std::vector<account::Transfer> transfers;
  std::vector<int64_t> transfer_steps;
  std::vector<account::StreamReport> streams;  // with what host transfers may overlap
  double bubbles = 0;                          // the share of steps in which IPUs do nothing
  int bottleneck = 0;                          // the stage with the most cycles a micro-batch
};

// Puts each piece of work and each transfer of a run's first micro-batches into a step. In a
// pipeline, stage s of micro-batch m works in step m + s of its round: one weight update, or all
// iterations of inference. Otherwise micro-batches follow each other: with phases, a step is a
// phase; without, steps go forward through the stages and back. UserError after load().
Schedule make_schedule(const Executable& model, int64_t micro_batches);

// Draws the schedule with a row per IPU and a column per step. A cell has F and B of a micro-batch,
// or only its number. The row below an IPU counts its transfers: loads (L) and stores (S), and
// inputs (<) and outputs (>) by micro-batch. A ~ marks those on I/O tiles.
std::string draw(const Schedule& schedule);

// Returns "in", "out", "load" or "store".
std::string_view word(account::Transfer::Kind kind);

}  // namespace poptorch::session
