#include "bindings/watched.hpp"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <new>
#include <thread>

#include "bindings/errors.hpp"
#include "support/error.hpp"

namespace poptorch::bindings {

namespace py = pybind11;

namespace {

std::atomic<pthread_t> main_thread{};
std::atomic<bool> program_ends{false};
std::atomic<int> others_at_work{0};  // threads other than the main one

// Runs in the child of a fork, whose single thread is Python's main thread.
void forget_others() {
  main_thread = pthread_self();
  others_at_work = 0;
}

void end_others() {
  using std::chrono::milliseconds;
  program_ends = true;
  const py::gil_scoped_release release;
  for (milliseconds waited{0}; others_at_work > 0 && waited < milliseconds(2000);
       waited += milliseconds(10)) {
    std::this_thread::sleep_for(milliseconds(10));
  }
}

}  // namespace

Stops::Stops() : in_main_thread_(pthread_equal(pthread_self(), main_thread) != 0) {
  if (!in_main_thread_) ++others_at_work;
}

Stops::~Stops() {
  if (!in_main_thread_) --others_at_work;
}

bool Stops::operator()() {
  if (!in_main_thread_) return program_ends;
  const py::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() == 0) return false;
  raised_ = std::make_exception_ptr(py::error_already_set());
  return true;
}

void Stops::rethrow() const {
  if (raised_) std::rethrow_exception(raised_);
}

void register_watched() {
  static const int registered = pthread_atfork(nullptr, nullptr, forget_others);
  (void)registered;
  py::register_local_exception_translator([](std::exception_ptr pointer) {
    try {
      if (pointer) std::rethrow_exception(pointer);
    } catch (const std::bad_alloc&) {
      raise_python_error(
          support::UserError("[memory] the host is out of memory. Use a smaller model or smaller "
                             "batches, or a host with more memory."));
    } catch (const support::Interrupted&) {
      raise_python_error(support::UserError(
          "[run] the program ended while another thread was running or compiling a model; that "
          "call was interrupted. Wait for the thread first."));
    }
  });
  const auto threading = py::module_::import("threading");
  main_thread = threading.attr("main_thread")().attr("ident").cast<pthread_t>();
  // end_others() must run before the interpreter waits for threads; atexit would be too late.
  threading.attr("_register_atexit")(py::cpp_function(end_others));
}

}  // namespace poptorch::bindings
