// Faults that a program asks for, to try out how it recovers: by POPTORCH_FAULT, or one by one.
// Each strikes at a named point of the program, once; points cost an atomic read while no fault is
// armed. A fault either breaks the device or sends a signal to the process itself.
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

// A failure of the device. What it held is lost, unless it failed while it was attached or compiled
// for.
class DeviceError : public Error {
 public:
  // `action`: what brings the device back, one of recovery_actions(), or "" where nothing does.
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

// Where faults strike; fault_text.cpp has their table.
enum class FaultPoint : uint8_t {
  kAttach,      // a device is taken
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
  int64_t nth = 1;  // which of the process's attachments, compilations, ..., from now on
  // Of a run: when IPU `ipu` (those of the replicas in a row) has done so many micro-batches, at
  // the latest when it has done its part of the run.
  int64_t micro_batch = 0, ipu = 0;
  // The pass of a compilation, the process that loads, the stage of joining, the kind of a
  // collective; "": any, of a compilation its beginning.
  std::string place;
  int64_t index = 0;   // of a pass: the ops that it has visited; of loading workers: the worker
  int signal = 0;      // that the process sends to itself; 0: the device fails
  std::string action;  // as of DeviceError
  std::string text;    // as it was asked for

  bool is_of_device() const { return signal == 0; }
};

// Reads `<point>[:<nth>[:<part>[:<part>]]]:<kind>`; UserError for another text.
Fault fault_of(std::string_view text);
// UserError unless these are faults, separated by commas, as POPTORCH_FAULT holds them.
void check_faults(std::string_view list);
std::vector<Fault> faults_of(std::string_view list);
std::string_view name_of(FaultPoint point);
// UserError for a name that no point has.
FaultPoint fault_point_of(std::string_view name);

// Arms a fault, which strikes once; gives its number. Beside those of POPTORCH_FAULT, which are
// armed when a point is reached for the first time.
int64_t arm_fault(Fault fault);
bool has_struck(int64_t number);
// It will not strike, and what it broke for good is mended.
void disarm_fault(int64_t number);

// Whether it is worth asking: true as long as POPTORCH_FAULT has not been read.
bool may_meet_faults();
// Called once for each occurrence of a point: the fault that strikes at this one, if any. `place`
// and `index` say which of the point's places this is.
std::optional<Fault> due_fault(FaultPoint point, std::string_view place = {}, int64_t index = 0);
// Raises it or sends its signal. For kAttach also raises what has put the system out of operation:
// see DeviceError's action.
void meet_fault(FaultPoint point, std::string_view place = {}, int64_t index = 0);
// Raises the failure of the device, or sends the signal.
void strike(const Fault& fault);
// Sends the signal of `fault` to this process. Returns when it has been delivered: never for
// SIGKILL, after SIGCONT for SIGSTOP. The watch of this thread looks at once.
void send_signal(const Fault& fault);
// What a device raises that has failed with `error` and was not attached again.
DeviceError failed_before(const DeviceError& error);
// What the device raises when `fault` strikes at `place`, such as "IPU 1".
DeviceError error_of(const Fault& fault, const std::string& place,
                     std::source_location where = std::source_location::current());

}  // namespace poptorch::support
