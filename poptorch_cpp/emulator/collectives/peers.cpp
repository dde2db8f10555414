#include "emulator/collectives/peers.hpp"

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>

#include "emulator/collectives/attempts.hpp"
#include "emulator/host/clock.hpp"
#include "emulator/transport/fabric.hpp"
#include "program/program.hpp"
#include "storage/container.hpp"
#include "support/build_id.hpp"
#include "support/error.hpp"
#include "support/faults.hpp"
#include "support/strings.hpp"
#include "support/watch.hpp"

namespace poptorch::emulator {

using support::str;

namespace {

// An aborting instance waits so many seconds: for room for its notices, and for the others to
// confirm that they no longer write to its memory.
constexpr double kForRoom = 0.5, kForTransfers = 5;

}  // namespace

struct Peers::Hello {
  // All instances must agree on these two lines.
  uint64_t build = 0, program = 0;
  uint64_t replicas = 0, ipus = 0;
  SharedPages::Handle pages = {};

  auto agreed() const { return std::tie(build, program, replicas, ipus); }
};

Peers::Peers(const Share& share, const program::Program& program)
    : share_(share), program_(program) {}

Tag Peers::tag(uint32_t collective, int group, uint32_t round) const {
  return {.program = number_,
          .run = static_cast<uint32_t>(attempts_->current().run),
          .collective = collective,
          .group = static_cast<uint32_t>(group),
          .round = round};
}

// Returns a tag that belongs to no run: others may already be past the run that failed.
Tag Peers::aside(uint32_t about) const {
  constexpr uint32_t kAside = uint32_t{1} << 31;  // a bit of program numbers
  return {.program = number_ | kAside, .collective = about};
}

void Peers::tell(const std::byte* note, int64_t bytes) {
  for (int other = 0; agreed_ && other < share_.instances; ++other) {
    if (other != share_.instance) fabric().send(other, aside(Tag::kNote), note, bytes);
  }
}

int Peers::hear(std::byte* note, int64_t bytes) {
  for (int other = 0; agreed_ && other < share_.instances; ++other) {
    if (other == share_.instance) continue;
    if (fabric().receive(other, aside(Tag::kNote), note, bytes)) return other;
  }
  return -1;
}

void Peers::begin_run() {
  begin_run_attempt();
  has_begun_run_ = false;
  telling([&] { agree(); });
  fabric().forget(number_, static_cast<uint32_t>(attempts_->current().run));
}

void Peers::begin_run_attempt() {
  join();
  if (!has_begun_run_) attempts_->begin_run();
}

// Throws UserError without a fabric. Numbers the program at the first call.
void Peers::join() {
  if (!share_.fabric) {
    throw support::UserError(str(
        "[instances] this is instance ", share_.instance, " of ", share_.instances,
        ". Its replicas need those of the other instances, but it is not connected to them. Start "
        "all instances with poprun or with torchrun -m popdist, and call popdist.init()."));
  }
  note_progress();
  if (attempts_) return;
  number_ = fabric().next_program();
  attempts_ = std::make_shared<Attempts>(share_, aside(Tag::kGiveUp));
}

// Continues an interrupted agreement where it stopped, in any later attempt: its messages do not
// depend on the attempt, and no instance sends them twice.
void Peers::agree() {
  if (agreed_) return;
  if (!unlike_.empty()) throw support::UserError(unlike_);
  // Seeds that differ only cause a warning: session/state_comparison.hpp.
  const std::string unseeded = program::print(program_, {.seed = false});
  const Hello own{.build = storage::digest_of(support::build_id()).low,
                  .program = storage::digest_of(unseeded).low,
                  .replicas = static_cast<uint64_t>(program_.replicas),
                  .ipus = program_.ipus.size(),
                  .pages = pages_.handle()};
  const Tag about = {.program = number_, .collective = Tag::kHello};
  const std::string what = "the first run of a program";
  const auto wait = [&](int other, auto ask) {
    support::meet_fault(support::FaultPoint::kJoin, "program");
    support::check_interrupt();
    uint32_t seen = fabric().signal();
    for (int64_t round = 0; !ask(); ++round) {
      support::check_interrupt();
      if (round % kRoundsBetweenChecks == kRoundsBetweenChecks - 1) check(other, what);
      fabric().nap(round, seen);
      seen = fabric().signal();
    }
    note_progress();
  };
  const auto is_other = [&](int instance) { return instance != share_.instance; };
  for (; greeted_ < share_.instances; ++greeted_) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&own);
    const auto greet = [&] { return fabric().send(greeted_, about, bytes, sizeof own); };
    if (is_other(greeted_)) wait(greeted_, greet);
  }
  for (; heard_ < share_.instances; ++heard_) {
    Hello theirs;
    auto* bytes = reinterpret_cast<std::byte*>(&theirs);
    const auto hear = [&] { return fabric().receive(heard_, about, bytes, sizeof theirs); };
    if (!is_other(heard_)) continue;
    wait(heard_, hear);
    refuse_unlike(own, theirs);
    if (fabric().is_on_this_host(heard_)) pages_.note(heard_, theirs.pages, fabric().name(heard_));
  }
  agreed_ = true;
}

// Throws UserError if `theirs`, of the instance heard now, differs from this instance's values.
void Peers::refuse_unlike(const Hello& own, const Hello& theirs) {
  if (own.agreed() == theirs.agreed()) return;
  const auto refuse = [&](const std::string& problem, const std::string& cure) {
    unlike_ = str("[instances] ", fabric().name(heard_), " ", problem, " than this one, instance ",
                  share_.instance, ". ", cure);
    throw support::UserError(unlike_);
  };
  if (own.build != theirs.build) {
    refuse("runs a different version of this library", "Install the same version everywhere.");
  }
  if (own.replicas != theirs.replicas || own.ipus != theirs.ipus) {
    refuse(str("runs a program of ", theirs.replicas, " replicas of ", theirs.ipus,
               " IPUs, rather than ", own.replicas, " of ", own.ipus),
           "Give all instances the same options.");
  }
  refuse("runs a different program",
         "All instances must make the same model, with the same options and input shapes.");
}

void Peers::telling(const std::function<void()>& work) {
  try {
    work();
  } catch (const std::exception& error) {
    abort(error.what());
    throw;
  } catch (...) {
    abort("an error without a text");
    throw;
  }
}

void Peers::abort(std::string_view why) noexcept {
  if (!attempts_) return;
  has_begun_run_ = false;
  const double until = wait_time() + kForRoom;
  try {
    attempts_->abort(why, until);
  } catch (...) {  // the others detect the end by themselves
  }
  try {
    fabric().withdraw(number_, now() + kForTransfers);
  } catch (...) {  // as above
  }
}

void Peers::check_aborts(const std::string& what) {
  const std::optional<Attempts::Abort> abort = attempts_->next_abort();
  if (!abort) return;
  throw support::UserError(str("[instances] ", what, " cannot continue: the run of ",
                               fabric().name(abort->instance),
                               " has failed. Its error: ", abort->reason));
}

void Peers::note_progress() {
  progress_ = wait_time();
  ended_ = -1;
}

void Peers::check(int awaited, const std::string& what) {
  check_aborts(what);
  const std::string end = fabric().end_of(awaited);
  const bool is_later =
      attempts_->is_past(awaited) || fabric().last_run(awaited, number_) > attempts_->current().run;
  if (!end.empty() || is_later) {
    if (ended_.exchange(awaited) != awaited) return;
    throw support::UserError(
        str("[instances] ", what, " waits for ", fabric().name(awaited), ", but ",
            end.empty() ? "that instance has continued with its next run" : end,
            ". All instances must make the same runs and take the same branches. Look at the last "
            "output of that instance."));
  }
  check_deadline(awaited, what);
}

void Peers::check_deadline(int awaited, const std::string& what) const {
  if (share_.timeout <= 0 || wait_time() - progress_ < share_.timeout) return;
  // The awaited instance may in turn wait for another.
  std::string why = ", which is running but sends nothing. Find out what it is doing. ";
  for (int other = 0; other < share_.instances; ++other) {
    if (other == share_.instance || !fabric().is_stopped(other)) continue;
    why = str(". ", fabric().name(other), " is stopped; kill -CONT continues it. ");
  }
  throw support::UserError(str(
      "[instances] ", what, " has waited ", share_.timeout, " s for ", fabric().name(awaited), why,
      "If it may take longer, set target.hostSyncTimeout in POPLAR_ENGINE_OPTIONS to more seconds, "
      "or to 0 to wait without limit."));
}

}  // namespace poptorch::emulator
