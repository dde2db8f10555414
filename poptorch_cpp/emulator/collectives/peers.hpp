// The other instances of a program that this one runs with: what they must agree in, and how a wait
// for one of them ends when it does not come. attempts.hpp numbers what they do together.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/bound/share.hpp"
#include "emulator/transport/lending.hpp"
#include "emulator/transport/tag.hpp"
#include "program/program.hpp"

namespace poptorch::emulator {

class Attempts;  // attempts.hpp

class Peers {
 public:
  // Of a thread that waits: how often it asks in vain before it checks who it waits for.
  static constexpr int64_t kRoundsBetweenChecks = 64;

  Peers(const Share& share, const program::Program& program);

  // Before each run. Before the first, waits until every other instance has come, and raises
  // UserError where one runs another program or build. support::Interrupted as everywhere.
  void begin_run();
  // Between runs, by all instances. `rows` has one of `row_bytes` for each of `owners`: that of the
  // instance named there goes to all others. UserError as check(), and where lengths differ: an
  // instance that `what` waits for is named. support::Interrupted as everywhere.
  void exchange(const std::string& what, std::byte* rows, int64_t row_bytes,
                const std::vector<int>& owners);
  // The same once a program, as a part of the next run's attempt. When it fails, the next call
  // continues it: `rows` must stay where they are until it succeeds.
  void exchange_before_run(const std::string& what, std::byte* rows, int64_t row_bytes,
                           const std::vector<int>& owners);
  // Beside runs, and nobody waits: a note for which there is no room is lost, and so is one before
  // the first run or exchange.
  void tell(const std::byte* note, int64_t bytes);
  // The instance whose note is next, which goes into `note`; -1: none has come. UserError where it
  // has another length.
  int hear(std::byte* note, int64_t bytes);
  // Calls `work`; when it raises, the others learn that they need not wait for this instance.
  void telling(const std::function<void()>& work);

  Fabric& fabric() const { return *share_.fabric; }
  const Share& share() const { return share_; }
  Tag tag(uint32_t collective, int group, uint32_t round) const;
  // What is added to it before the first run, others can read from then on.
  Lending& lending() { return lending_; }

  // Collectives that wait for other instances now.
  std::atomic<int> under_way{0};

  // Something came: whoever waits may wait anew.
  void note_progress();
  double progress() const { return progress_; }  // when that was
  // For whoever has asked in vain. UserError when an instance has given up this run, when
  // `awaited` has ended or is in a later run, or when nothing has come for longer than the timeout:
  // "[instances] `what` waits for instance 1 (process 4711), which ...".
  // An end is told at the second call only: what was sent before it is received in between.
  void check(int awaited, const std::string& what);

 private:
  struct Hello;
  class RowExchange;

  void join();
  void begin_run_attempt();
  void agree();
  void refuse_unlike(const Hello& own, const Hello& theirs);
  void finish(RowExchange& rows, const std::string& what);
  Tag aside(uint32_t about) const;
  void abort(std::string_view why) noexcept;
  void check_aborts(const std::string& what);
  void check_deadline(int awaited, const std::string& what) const;

  Share share_;
  const program::Program& program_;
  Lending lending_;
  uint32_t number_ = 0;                 // Fabric::next_program()
  std::shared_ptr<Attempts> attempts_;  // from the first on
  bool has_begun_run_ = false;          // its attempt, by exchange_before_run()
  bool agreed_ = false;
  int greeted_ = 0, heard_ = 0;  // instances before these are, in an agreement
  std::string unlike_;           // why there can be no agreement
  std::shared_ptr<RowExchange> before_run_;
  std::atomic<double> progress_{0};  // when something came last
  std::atomic<int> ended_{-1};       // an instance that check() has found ended since
};

}  // namespace poptorch::emulator
