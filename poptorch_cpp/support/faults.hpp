// Faults of a device that a program asks for, to try out how it recovers: by POPTORCH_FAULT, or one
// by one. They strike at four points; nobody pays for asking while none is armed.
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

// Where faults strike: when a device is taken, when a program is compiled, when an IPU begins or
// has done a micro-batch, and when state goes to the device or comes from it.
enum class FaultPoint : uint8_t { kAttach, kCompile, kRun, kCopy };

struct Fault {
  FaultPoint point = FaultPoint::kRun;
  int64_t nth = 1;  // which of the process's attachments, compilations, ..., from now on
  // Of a run: when IPU `ipu` (those of the replicas in a row) has done so many micro-batches, at
  // the latest when it has done its part of the run.
  int64_t micro_batch = 0, ipu = 0;
  std::string action;  // as of DeviceError
  std::string text;    // as it was asked for
};

// Reads `<point>[:<nth>[:<micro-batch>[:<ipu>]]]:<kind>`; UserError for another text.
Fault fault_of(std::string_view text);
// UserError unless these are faults, separated by commas, as POPTORCH_FAULT holds them.
void check_faults(std::string_view list);

// Arms a fault, which strikes once; gives its number. Beside those of POPTORCH_FAULT, which are
// armed when a point is reached for the first time.
int64_t arm_fault(Fault fault);
bool has_struck(int64_t number);
// It will not strike, and what it broke for good is mended.
void disarm_fault(int64_t number);

// Called once for each occurrence of a point: the fault that strikes at this one, if any.
std::optional<Fault> due_fault(FaultPoint point);
// Raises it. For kAttach also what has put the system out of operation: see DeviceError's action.
void meet_fault(FaultPoint point);
// What a device raises that has failed with `error` and was not attached again.
DeviceError failed_before(const DeviceError& error);
// What the device raises when `fault` strikes at `place`, such as "IPU 1".
DeviceError error_of(const Fault& fault, const std::string& place,
                     std::source_location where = std::source_location::current());

}  // namespace poptorch::support
