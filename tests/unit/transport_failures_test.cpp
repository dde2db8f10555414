// Failures of system calls below the transport: they end a run with an error, never the process.
#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <latch>
#include <new>
#include <system_error>

#include "emulator/host/pool.hpp"
#include "emulator/transport/bulk_transfers.hpp"
#include "emulator/transport/frame_link.hpp"
#include "fabric_testing.hpp"
#include "sanitizers.hpp"

// Refuses the thread at which threads_until_refusal reaches 0. Sanitizers define this function
// themselves.
#ifndef POPTORCH_SANITIZED
static std::atomic<int> threads_until_refusal{0};

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*run)(void*), void* argument) {
  using Create = decltype(&pthread_create);
  static const auto create = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  if (threads_until_refusal > 0 && --threads_until_refusal == 0) return EAGAIN;
  return create(thread, attributes, run, argument);
}
#endif

namespace poptorch::emulator {
namespace {

#ifndef POPTORCH_SANITIZED
// Calls `make` with the first thread refused, then the second, and so on until no further thread
// starts. Returns the number of threads that it starts.
int threads_of(const std::function<void()>& make) {
  for (int refused = 1;; ++refused) {
    threads_until_refusal = refused;
    try {
      make();
    } catch (const std::system_error&) {
      continue;
    }
    if (threads_until_refusal.exchange(0) > 0) return refused - 1;
  }
}

TEST(ThreadRefused, IsAnErrorOfALink) {
  const auto link = [] {
    EventCount events;
    const auto out = std::make_shared<Line>(), in = std::make_shared<Line>();
    FrameLink(std::make_unique<LineWire>(out, in), events);
  };
  EXPECT_EQ(threads_of(link), 3);
}

TEST(ThreadRefused, LeavesAPoolWithTheThreadsThatItHas) {
  const auto work = [] {
    Pool pool(4);
    std::atomic<int> done{0};
    auto task = [&](int, int) { ++done; };
    pool.run(100, task);
    EXPECT_EQ(done, 100);
  };
  EXPECT_EQ(threads_of(work), 3);
}
#endif

class WithoutMemory final : public LocalFabric {
 public:
  using LocalFabric::LocalFabric;
  void withdraw(uint32_t, double) override { throw std::bad_alloc(); }
};

TEST(TransportFailures, AFailedRunThatCannotWithdrawItsTransfersIsAnError) {
  const program::Program program = training_program(2);
  const auto mail = std::make_shared<Mail>(2);
  mail->ends[1] = "it has ended";
  EngineOptions options{.threads = 1};
  options.share = {.instances = 2,
                   .instance = 0,
                   .fabric = std::make_shared<WithoutMemory>(mail, 0, 64, false),
                   .timeout = 0};
  try {
    outcome_here(program, options);
    ADD_FAILURE() << "the run does not need the other instance";
  } catch (const support::UserError& error) {
    EXPECT_NE(std::string(error.what()).find("it has ended"), std::string::npos) << error.what();
  }
}

TEST(TransportFailures, TwoThreadsMayCloseBulkTransfersAtOnce) {
  for (int round = 0; round < 100; ++round) {
    const auto out = std::make_shared<Line>(), in = std::make_shared<Line>();
    LineWire wire(out, in);
    EventCount events;
    BulkTransfers transfers(wire, events, [](const std::string&) {});
    std::byte buffer[64];
    transfers.request({}, buffer, sizeof buffer);
    std::latch both(2);
    const auto raised = in_threads(2, [&](int) {
      both.arrive_and_wait();
      transfers.close();
    });
    ASSERT_EQ(raised, std::vector<std::string>(2));
  }
}

}  // namespace
}  // namespace poptorch::emulator
