// Coordinates this instance with the others that run the same program: checks that they agree, and
// ends a wait for an instance that does not arrive. attempts.hpp numbers their joint attempts.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/bound/share.hpp"
#include "emulator/transport/shared_pages.hpp"
#include "emulator/transport/tag.hpp"

namespace poptorch::program {
struct Program;
}

namespace poptorch::emulator {

class Attempts;  // attempts.hpp

class Peers {
 public:
  // A waiting thread polls so often without result before it checks the awaited instance.
  static constexpr int64_t kRoundsBetweenChecks = 64;

  Peers(const Share& share, const program::Program& program);

  // Is called before each run. Before the first, blocks until every other instance has arrived, and
  // throws UserError if one runs another program or build. May throw support::Interrupted.
  void begin_run();
  // Exchanges rows; all instances call it between runs. `rows` has a row of `row_bytes` for each of
  // `owners`: the instance named there sends the row to all others. Throws UserError as check()
  // does, naming an instance that `what` waits for, and if row lengths differ. May throw
  // support::Interrupted.
  void exchange(const std::string& what, std::byte* rows, int64_t row_bytes,
                const std::vector<int>& owners);
  // Exchanges rows once per program, as a part of the next run's attempt. If it fails, the next
  // call continues it: `rows` must stay where they are until it succeeds.
  void exchange_before_run(const std::string& what, std::byte* rows, int64_t row_bytes,
                           const std::vector<int>& owners);
  // Sends a note to all others, independently of runs and without blocking. A note is lost if it
  // does not find room or is sent before the first run or exchange.
  void tell(const std::byte* note, int64_t bytes);
  // Receives the next note into `note`. Returns its instance, or -1 if none has arrived. Throws
  // UserError if it has another length.
  int hear(std::byte* note, int64_t bytes);
  // Calls `work`. If it throws, notifies the others that they need not wait for this instance.
  void telling(const std::function<void()>& work);

  Fabric& fabric() const { return *share_.fabric; }
  const Share& share() const { return share_; }
  Tag tag(uint32_t collective, int group, uint32_t round) const;
  // Returns the shared memory. Others can read what is added before the first run from then on.
  SharedPages& shared_pages() { return pages_; }

  // Records that something arrived, which restarts the timeout of every wait.
  void note_progress();
  double progress() const { return progress_; }  // when that was
  // Is called by a thread that has polled without result. Throws UserError if an instance has
  // aborted this run, `awaited` has ended or is in a later run, or the timeout has passed since
  // something arrived: "[instances] `what` waits for instance 1 (process 4711), which ...".
  // Reports an end only at the second call: earlier messages are received in between.
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
  SharedPages pages_;
  uint32_t number_ = 0;                 // Fabric::next_program()
  std::shared_ptr<Attempts> attempts_;  // set from the first attempt on
  bool has_begun_run_ = false;          // exchange_before_run() has begun its attempt
  bool agreed_ = false;
  int greeted_ = 0, heard_ = 0;  // by agree(): the instances below these
  std::string unlike_;           // why agreement is impossible
  std::shared_ptr<RowExchange> before_run_;
  std::atomic<double> progress_{0};  // when something last arrived
  std::atomic<int> ended_{-1};       // an instance whose end check() has found since
};

}  // namespace poptorch::emulator
