// Signals at named points: their texts, the places where they are sent, and the work that they
// stop.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <vector>

#include "arming.hpp"
#include "ir/execution.hpp"
#include "ir/text.hpp"
#include "ops/all_ops.hpp"
#include "scratch.hpp"
#include "session/session.hpp"
#include "support/error.hpp"
#include "support/faults.hpp"
#include "support/watch.hpp"
#include "support/whole_file.hpp"
#include "trained_net.hpp"

namespace poptorch::support {
namespace {

// Returns how a child that runs `work` ends or stops, in the form of waitpid.
template <typename Work>
int end_of_child(Work work, pid_t* child = nullptr) {
  const pid_t process = fork();
  if (process == 0) {
    work();
    _exit(0);
  }
  int status = 0;
  waitpid(process, &status, WUNTRACED);
  if (child) *child = process;
  return status;
}

TEST(SignalFaultText, IsRead) {
  const Fault run = fault_of("run:3:5:1:SIGINT");
  EXPECT_EQ(run.signal, SIGINT);
  EXPECT_EQ(run.micro_batch, 5);
  EXPECT_EQ(run.ipu, 1);
  const Fault pass = fault_of("compile:2:differentiate:30:SIGTERM");
  EXPECT_EQ(pass.nth, 2);
  EXPECT_EQ(pass.place, "differentiate");
  EXPECT_EQ(pass.index, 30);
  const Fault worker = fault_of("load:3:worker:1:SIGKILL");
  EXPECT_EQ(worker.place, "worker");
  EXPECT_EQ(worker.index, 1);
  for (const char* text : {"attach:SIGINT", "compile:SIGSTOP", "copy:2:SIGKILL", "save:4:SIGTERM",
                           "load:SIGINT", "join:2:memory:SIGKILL", "collective:7:host:SIGSTOP"}) {
    EXPECT_FALSE(fault_of(text).is_of_device()) << text;
  }
}

TEST(SignalFaultText, IsRefusedWithWhatThereIs) {
  const std::pair<const char*, const char*> cases[] = {
      {"save:IPU_RESET",
       "a device cannot fail at save. Choose a signal: SIGINT, SIGTERM, SIGKILL, "},
      {"load:2:UNRECOVERABLE", "a device cannot fail at load."},
      {"join:LINK_RESET", "a device cannot fail at join."},
      {"collective:LINK_RESET", "a device cannot fail at collective."},
      {"compile:1:differentiate:IPU_RESET", "a device cannot fail in a pass of compile."},
      {"run:SIGHUP", "there is no kind 'SIGHUP'"},
      {"load:1:wroker:SIGINT",
       "the process is 'wroker': it is one of program, loader, worker. Did you mean worker?"},
      {"join:1::SIGINT", "the stage is ''"},
      {"compile:1:differentiate:x:SIGINT", "the number of ops is 'x', which is not a whole number"},
      {"save:1:2:SIGINT", "save has at most 3 parts, but got 4."},
  };
  for (const auto& [text, message] : cases) {
    try {
      fault_of(text);
      ADD_FAILURE() << text;
    } catch (const UserError& error) {
      EXPECT_NE(std::string_view(error.what()).find(message), std::string_view::npos)
          << error.what();
    }
  }
}

TEST(SignalFault, IsDeliveredWhenItsPointReturns) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const Handling handling(signal);
    const Arming fault(str("copy:2:", signal == SIGINT ? "SIGINT" : "SIGTERM"));
    meet_fault(FaultPoint::kCopy);
    EXPECT_EQ(received, 0);
    meet_fault(FaultPoint::kCopy);
    EXPECT_EQ(received, 1);
    EXPECT_TRUE(fault.has_struck());
    meet_fault(FaultPoint::kCopy);
    meet_fault(FaultPoint::kAttach);
    EXPECT_EQ(received, 1);
  }
}

TEST(SignalFault, CountsOccurrencesAtItsPlace) {
  const Handling handling(SIGINT);
  const Arming second("load:2:worker:1:SIGINT");
  for (const char* place : {"program", "loader"}) meet_fault(FaultPoint::kLoad, place);
  for (int i = 0; i < 3; ++i) meet_fault(FaultPoint::kLoad, "worker", 0);
  meet_fault(FaultPoint::kLoad, "worker", 1);
  EXPECT_EQ(received, 0);
  meet_fault(FaultPoint::kLoad, "worker", 1);
  EXPECT_EQ(received, 1);
  const Arming anywhere("join:2:SIGINT");
  meet_fault(FaultPoint::kJoin, "memory");
  meet_fault(FaultPoint::kJoin, "program");
  EXPECT_EQ(received, 2);
}

TEST(SignalFault, KillsAndStopsAtThePoint) {
  const int killed = end_of_child([] {
    const Arming fault("join:SIGKILL");
    meet_fault(FaultPoint::kJoin);
  });
  EXPECT_TRUE(WIFSIGNALED(killed) && WTERMSIG(killed) == SIGKILL);
  pid_t child = 0;
  const int stopped = end_of_child(
      [] {
        const Arming fault("collective:SIGSTOP");
        meet_fault(FaultPoint::kCollective);
      },
      &child);
  EXPECT_TRUE(WIFSTOPPED(stopped) && WSTOPSIG(stopped) == SIGSTOP);
  kill(child, SIGCONT);
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(SignalFault, KillsAFilesWriterAtEachStep) {
  const Scratch scratch;
  const std::string path = scratch.path("file");
  const auto write = [&](const std::string& text) {
    WholeFile file(path);
    file.write(text.data(), 3);
    file.write_at(3, text.data() + 3, text.size() - 3);
    file.commit();
  };
  constexpr int kSteps = 5;  // two writes, before and after bringing it to the disk, the new name
  for (int step = 1; step <= kSteps + 1; ++step) {
    write("before");
    const int status = end_of_child([&] {
      const Arming fault(str("save:", step, ":SIGKILL"));
      write("after!");
    });
    EXPECT_EQ(WIFSIGNALED(status) != 0, step <= kSteps) << step;
    EXPECT_EQ(content_of(path), step < kSteps ? "before" : "after!") << step;
  }
}

std::unique_ptr<session::Executable> model_of(int64_t micro_batches = 4, int64_t threads = 1) {
  auto module = ir::parse(kTrainedNet, ops::registry());
  ir::Execution& options = module->execution();
  options.training = true;
  options.gradient_accumulation = micro_batches;
  options.replication_factor = 2;
  options.optimiser = momentum_sgd({"lr"});
  return session::compile(std::move(module), {.threads = threads});
}

void run_model(session::Executable& model) {
  const std::vector<std::byte> input(static_cast<size_t>(model.input_types()[0].bytes()));
  std::vector<std::byte> output(static_cast<size_t>(model.output_types()[0].bytes()));
  model.run({input.data()}, {output.data()});
}

// The first check of the watch follows the signal, so that the result does not depend on time.
constexpr std::chrono::hours kNever{1};

class SignalFaultOfPass : public testing::TestWithParam<const char*> {};

TEST_P(SignalFaultOfPass, StopsTheCompilationThere) {
  const Handling handling(SIGINT);
  const Arming fault(str("compile:", GetParam(), ":SIGINT"));
  Watch watch([] { return received > 0; }, kNever);
  EXPECT_THROW(model_of(), Interrupted);
  EXPECT_EQ(received, 1);
}

INSTANTIATE_TEST_SUITE_P(Places, SignalFaultOfPass,
                         testing::Values("1", "1:differentiate", "1:differentiate:5",
                                         "1:canonicalise:3"));

TEST(SignalFaultOfCompilation, StopsOneThatTakesAKeptProgram) {
  model_of();
  const Handling handling(SIGINT);
  const Arming fault("compile:1:SIGINT");
  Watch watch([] { return received > 0; }, kNever);
  EXPECT_THROW(model_of(), Interrupted);
}

TEST(SignalFaultOfCompilation, MustBeInAPassThatRuns) {
  const Arming fault("compile:1:diferentiate:SIGINT");
  try {
    model_of();
    ADD_FAILURE();
  } catch (const UserError& error) {
    EXPECT_NE(std::string_view(error.what()).find("Did you mean differentiate?"),
              std::string_view::npos)
        << error.what();
  }
}

TEST(SignalFaultOfCompilation, IsSentAtTheEndOfAPassOfFewerOps) {
  const Handling handling(SIGINT);
  const Arming fault("compile:1:differentiate:1000000:SIGINT");
  model_of();
  EXPECT_EQ(received, 1);
}

TEST(SignalFaultOfRun, StopsItAtThatMicroBatch) {
  for (const int threads : {1, 4}) {
    const auto model = model_of(1 << 10, threads);
    const Handling handling(SIGINT);
    for (const char* where : {"0:0", "5:1"}) {
      received = 0;
      const Arming fault(str("run:1:", where, ":SIGINT"));
      Watch watch([] { return received > 0; }, kNever);
      EXPECT_THROW(run_model(*model), Interrupted);
      EXPECT_EQ(received, 1);
    }
    run_model(*model);
  }
}

TEST(SignalFaultOfRun, LeavesARunThatNobodyStops) {
  const auto model = model_of();
  const Handling handling(SIGTERM);
  const Arming first("run:1:4:1:SIGTERM"), second("collective:3:run:SIGTERM");
  run_model(*model);
  EXPECT_EQ(received, 2);
  EXPECT_FALSE(model->has_failed());
}

}  // namespace
}  // namespace poptorch::support
