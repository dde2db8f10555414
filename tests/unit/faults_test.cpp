// Injected faults: their text, the occurrences that are counted, the stop of all IPUs after one
// fails, and the contents of a device that is attached again.
#include "support/faults.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <thread>
#include <vector>

#include "arming.hpp"
#include "error_text.hpp"
#include "ir/execution.hpp"
#include "ir/text.hpp"
#include "ops/all_ops.hpp"
#include "session/session.hpp"
#include "support/environment.hpp"
#include "support/watch.hpp"
#include "trained_net.hpp"

namespace poptorch::support {
namespace {

std::string refusal(std::string_view list) {
  return text_of<UserError>([&] { check_faults(list); });
}

bool has(const std::string& text, std::string_view part) { return text.find(part) != text.npos; }

TEST(FaultText, IsRead) {
  const Fault fault = fault_of("run:3:5:1:LINK_RESET");
  EXPECT_EQ(fault.point, FaultPoint::kRun);
  EXPECT_EQ(fault.nth, 3);
  EXPECT_EQ(fault.micro_batch, 5);
  EXPECT_EQ(fault.ipu, 1);
  EXPECT_EQ(fault.action, "LINK_RESET");
  EXPECT_EQ(fault_of("copy:UNRECOVERABLE").action, "");
  EXPECT_EQ(fault_of("copy:UNRECOVERABLE").nth, 1);
  for (const std::string_view action : recovery_actions()) {
    EXPECT_EQ(refusal(str("attach:2:", action, ",compile:", action)), "no error");
  }
}

TEST(FaultText, IsRefusedWithWhatThereIs) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "'': this is not a point and a kind."},
      {"run", "this is not a point and a kind."},
      {"runs:IPU_RESET",
       "there is no point 'runs': it is one of attach, compile, run, copy, save, load, join, "
       "collective. Did you mean run?"},
      {"run:IPU_REST", "Did you mean IPU_RESET?"},
      {"run:0:IPU_RESET",
       "the number of the occurrence is '0', which is not a whole number from 1."},
      {"run:1:-1:IPU_RESET", "the micro-batch is '-1'"},
      {"run:1:1:x:IPU_RESET", "the IPU is 'x'"},
      {"run:99999999999999999999:IPU_RESET", "the number of the occurrence"},
      {"copy:1:2:IPU_RESET", "copy has at most 3 parts, but got 4."},
      {"run:1:2:3:4:IPU_RESET", "run has at most 5 parts"},
      {"run:IPU_RESET,,", "'': this is not a point and a kind."},
  };
  for (const auto& [text, message] : cases) {
    EXPECT_TRUE(has(refusal(text), message)) << refusal(text);
    EXPECT_TRUE(has(refusal(text), "run:3:IPU_RESET")) << "of the cure";
  }
}

TEST(FaultText, IsCheckedInTheEnvironment) {
  setenv("POPTORCH_FAULT", "run:IPU", 1);
  EXPECT_THROW(
      {
        try {
          check_environment();
        } catch (const UserError& error) {
          EXPECT_TRUE(has(error.what(), "[environment] POPTORCH_FAULT: [faults] 'run:IPU'"));
          throw;
        }
      },
      UserError);
  unsetenv("POPTORCH_FAULT");
}

TEST(Faults, StrikeOnceEachAtTheirOccurrence) {
  const Arming third("copy:3:IPU_RESET"), alike("copy:3:FULL_RESET"), other("compile:IPU_RESET");
  EXPECT_FALSE(due_fault(FaultPoint::kCopy));
  EXPECT_NO_THROW(meet_fault(FaultPoint::kCopy));
  EXPECT_FALSE(third.has_struck());
  EXPECT_EQ(due_fault(FaultPoint::kCopy)->action, "IPU_RESET");
  EXPECT_TRUE(third.has_struck());
  EXPECT_FALSE(alike.has_struck());
  EXPECT_EQ(due_fault(FaultPoint::kCopy)->action, "FULL_RESET");
  EXPECT_FALSE(due_fault(FaultPoint::kCopy));
  EXPECT_FALSE(other.has_struck());
}

TEST(Faults, KeepDevicesAwayAsLongAsTheyCannotBeMended) {
  {
    const Arming fault("copy:UNRECOVERABLE");
    EXPECT_NO_THROW(meet_fault(FaultPoint::kAttach));
    EXPECT_THROW(meet_fault(FaultPoint::kCopy), DeviceError);
    EXPECT_NO_THROW(meet_fault(FaultPoint::kCopy));
    for (int i = 0; i < 2; ++i) EXPECT_THROW(meet_fault(FaultPoint::kAttach), DeviceError);
  }
  EXPECT_NO_THROW(meet_fault(FaultPoint::kAttach));
}

TEST(Faults, AreCountedByAllThreads) {
  const Arming fault("compile:1000:IPU_RESET");
  std::atomic<int> struck{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 250; ++k) struck += due_fault(FaultPoint::kCompile) ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(struck, 1);
  EXPECT_TRUE(fault.has_struck());
}

constexpr int kMicroBatches = 4, kReplicas = 2;

std::unique_ptr<session::Executable> trained(int64_t threads, const std::string& strategy) {
  auto module = ir::parse(kTrainedNet, ops::registry());
  ir::Execution& options = module->execution();
  options.training = true;
  options.strategy = strategy;
  options.gradient_accumulation = kMicroBatches;
  options.replication_factor = kReplicas;
  options.optimiser = momentum_sgd({"lr"});
  return session::compile(std::move(module), {.threads = threads});
}

using Bytes = std::vector<std::byte>;

Bytes made_up(int64_t size) {
  std::vector<float> values(static_cast<size_t>(size) / sizeof(float));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 7) / 4 - 0.5f;
  const auto* begin = reinterpret_cast<const std::byte*>(values.data());
  return {begin, begin + size};
}

Bytes run(session::Executable& model) {
  const Bytes input = made_up(model.input_types()[0].bytes());
  Bytes output(static_cast<size_t>(model.output_types()[0].bytes()));
  model.run({input.data()}, {output.data()});
  return output;
}

void write_weights(session::Executable& model) {
  const Bytes weight = made_up(64);
  model.write_states({{"w", weight.data()}, {"v", weight.data()}});
}

Bytes weights(const session::Executable& model) {
  Bytes both(128);
  model.read_states({{"w", both.data()}, {"v", both.data() + 64}});
  return both;
}

struct Joining {
  int64_t threads;
  const char* strategy;
};

class FaultOfRun : public testing::TestWithParam<Joining> {};

TEST_P(FaultOfRun, StopsAllIpusAndLeavesNothing) {
  const auto [threads, strategy] = GetParam();
  const auto undisturbed = trained(threads, strategy);
  write_weights(*undisturbed);
  const Bytes losses = run(*undisturbed), after = weights(*undisturbed);

  const auto model = trained(threads, strategy);
  for (int ipu = 0; ipu < 2 * kReplicas; ++ipu) {
    for (int done = 0; done <= kMicroBatches + 1; ++done) {
      write_weights(*model);
      model->set_random_state({model->random_state().first, 0});
      {
        const Arming fault(str("run:1:", done, ":", ipu, ":IPU_RESET"));
        try {
          run(*model);
          ADD_FAILURE() << "IPU " << ipu << " did not fail";
        } catch (const DeviceError& error) {
          EXPECT_TRUE(has(error.what(), str("IPU ", ipu, " failed")));
          EXPECT_EQ(error.recovery_action(), "IPU_RESET");
          EXPECT_EQ(error.frames().size(), 2u);
        }
      }
      EXPECT_TRUE(model->has_failed());
      EXPECT_FALSE(model->forget_partial_state());
      EXPECT_THROW(run(*model), DeviceError);
      EXPECT_THROW(weights(*model), DeviceError);
      EXPECT_THROW(write_weights(*model), DeviceError);
      model->attach();
      EXPECT_FALSE(model->has_failed());
      EXPECT_EQ(weights(*model), Bytes(128)) << "of the compilation";
      write_weights(*model);
      EXPECT_EQ(run(*model), losses);
      EXPECT_EQ(weights(*model), after);
      // A device with the momentum of another step would not reproduce these losses.
      const Arming fault("copy:IPU_RESET");
      EXPECT_THROW(weights(*model), DeviceError);
      model->attach();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, FaultOfRun,
                         testing::Values(Joining{1, "sharded"}, Joining{4, "sharded"},
                                         Joining{1, "pipelined"}, Joining{4, "pipelined"}));

TEST(InterruptedRun, IsReportedOnce) {
  const auto model = trained(1, "sharded");
  const auto interrupt = [&] {
    const Watch watch([] { return true; }, Watch::kEveryTime);
    EXPECT_THROW(run(*model), Interrupted);
  };
  EXPECT_FALSE(model->forget_partial_state());
  interrupt();
  run(*model);  // continues with the partial state
  EXPECT_TRUE(model->forget_partial_state());
  EXPECT_FALSE(model->forget_partial_state());
  interrupt();
  EXPECT_TRUE(model->forget_partial_state());
  EXPECT_THROW(model->run({}, {}), UserError);  // does not begin
  EXPECT_FALSE(model->forget_partial_state());
}

TEST(InterruptedRun, IsForgottenWithADeviceThatFails) {
  const auto model = trained(1, "sharded");
  {
    const Watch watch([] { return true; }, Watch::kEveryTime);
    EXPECT_THROW(run(*model), Interrupted);
  }
  const Arming fault("copy:IPU_RESET");
  EXPECT_THROW(write_weights(*model), DeviceError);
  EXPECT_TRUE(model->has_failed());
  EXPECT_FALSE(model->forget_partial_state());
  model->attach();
  EXPECT_FALSE(model->has_failed());
  EXPECT_FALSE(model->forget_partial_state());
}

TEST(FaultOfDevice, TellsWhatHappenedBefore) {
  const auto model = trained(1, "sharded");
  const Arming fault("copy:PARTITION_RESET");
  EXPECT_THROW(write_weights(*model), DeviceError);
  try {
    run(*model);
    ADD_FAILURE();
  } catch (const DeviceError& error) {
    EXPECT_TRUE(has(error.what(),
                    "not been attached again since this error: the device failed "
                    "(injected: copy:PARTITION_RESET)"))
        << error.what();
    EXPECT_EQ(error.recovery_action(), "PARTITION_RESET");
    EXPECT_EQ(error.frames(), std::vector<std::string>{"copy"});
    EXPECT_TRUE(error.origin().starts_with("faults.cpp:"));
  }
}

TEST(FaultOfDevice, LeavesLearningRates) {
  const auto model = trained(1, "sharded");
  const std::string rate = "optimiser.lr.0";
  const double value = 0.5;
  const Arming fault("copy:IPU_RESET");
  EXPECT_THROW(write_weights(*model), DeviceError);
  model->write_state(rate, reinterpret_cast<const std::byte*>(&value));
  model->attach();
  double found = 0;
  model->read_state(rate, reinterpret_cast<std::byte*>(&found));
  EXPECT_EQ(found, value);
}

TEST(FaultOfDevice, MustBeOfAnIpuThatThereIs) {
  const auto model = trained(1, "sharded");
  const Arming fault("run:1:0:4:IPU_RESET");
  EXPECT_THROW(run(*model), UserError);
  EXPECT_FALSE(model->has_failed());
}

TEST(FaultOfCompilation, LosesNothing) {
  const Arming fault("compile:FULL_RESET");
  EXPECT_THROW(trained(1, "sharded"), DeviceError);
  run(*trained(1, "sharded"));
}

}  // namespace
}  // namespace poptorch::support
