// Fault injection: a program asks for faults to test how it recovers, by POPTORCH_FAULT, or one by
// one. Each strikes once, at a named point of the program. Points cost an atomic read while no
// fault is armed. A fault either breaks the device or sends a signal to the process itself.
#pragma once

#include <cstdint>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/error.hpp"

namespace poptorch::support {

// A failure of the device. What the device held is lost, unless it failed during attachment or
// compilation.
class DeviceError : public Error {
 public:
  // `action` brings the device back: it is one of recovery_actions(), or "" if nothing does.
  DeviceError(const std::string& message, std::string action,
              std::source_location where = std::source_location::current())
      : Error(message, where), action_(std::move(action)) {}
  const char* type() const override;
  const std::string& recovery_action() const { return action_; }
  bool is_recoverable() const { return !action_.empty(); }

 private:
  std::string action_;
};

const std::vector<std::string_view>& recovery_actions();

// The points where faults strike; fault_text.cpp has their table.
enum class FaultPoint : uint8_t {
  kAttach,      // a device is acquired
  kCompile,     // a compilation begins, or has visited some ops in one of its passes
  kRun,         // an IPU begins, or has done some micro-batches
  kCopy,        // state goes to the device or comes from it
  kSave,        // the writer of a file is about to write to it, to sync it or to rename it, or has
                // renamed it
  kLoad,        // a process is about to take, to hand over or to fetch a batch of a data loader
  kJoin,        // an instance is about to take the next step of joining the others
  kCollective,  // an instance begins a collective
};

struct Fault {
  FaultPoint point = FaultPoint::kRun;
  int64_t nth = 1;  // which occurrence of the point in this process, from now on
  // In a run, the fault strikes when IPU `ipu` has done this many micro-batches, or at the latest
  // its part of the run. IPUs are numbered through all replicas.
  int64_t micro_batch = 0, ipu = 0;
  // The pass of a compilation, the process that loads, the stage of joining, or the kind of a
  // collective. "" means any of them, and the beginning of a compilation.
  std::string place;
  int64_t index = 0;   // ops that the pass has visited, or the number of a loading worker
  int signal = 0;      // that the process sends to itself; 0: the device fails
  std::string action;  // as in DeviceError
  std::string text;    // as it was requested

  bool is_of_device() const { return signal == 0; }
};

// Reads `<point>[:<nth>[:<part>[:<part>]]]:<kind>`; throws UserError for another text.
Fault fault_of(std::string_view text);
// Throws UserError unless these are faults, separated by commas, as POPTORCH_FAULT holds them.
void check_faults(std::string_view list);
std::vector<Fault> faults_of(std::string_view list);
std::string_view name_of(FaultPoint point);
// Throws UserError for a name that is not a point's.
FaultPoint fault_point_of(std::string_view name);

// Arms a fault, which strikes once, and returns its number. The faults of POPTORCH_FAULT are armed
// too, when a point is reached for the first time.
int64_t arm_fault(Fault fault);
bool has_struck(int64_t number);
// Disarms a fault, so that it cannot strike any more. Also ends a permanent failure that it caused.
void disarm_fault(int64_t number);

// Returns whether due_fault() may find one; true until POPTORCH_FAULT has been read.
bool may_meet_faults();
// Returns the fault that strikes at this occurrence of a point, if any. Call it once for each
// occurrence. `place` and `index` say which of the point's places this is.
std::optional<Fault> due_fault(FaultPoint point, std::string_view place = {}, int64_t index = 0);
// Raises the due fault or sends its signal. For kAttach it also raises if a fault has put the
// system out of operation: see DeviceError's action.
void meet_fault(FaultPoint point, std::string_view place = {}, int64_t index = 0);
// Raises the failure of the device, or sends the signal.
void strike(const Fault& fault);
// Sends the signal of `fault` to this process. Returns when it has been delivered: never for
// SIGKILL, after SIGCONT for SIGSTOP. Makes the watch of this thread look at once.
void send_signal(const Fault& fault);
// Returns the error of a device that failed with `error` and was not attached again.
DeviceError failed_before(const DeviceError& error);
// Returns the error of the device when `fault` strikes at `place`, such as "IPU 1".
DeviceError error_of(const Fault& fault, const std::string& place,
                     std::source_location where = std::source_location::current());

}  // namespace poptorch::support
