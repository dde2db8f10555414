// Suppresses log lines of a thread, for work that has logged them before.
#pragma once

namespace poptorch::support {

inline thread_local bool is_quiet = false;

// This thread logs nothing while the object lives.
class Quiet {
 public:
  Quiet() : before_(is_quiet) { is_quiet = true; }
  ~Quiet() { is_quiet = before_; }
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;

 private:
  bool before_;
};

}  // namespace poptorch::support
