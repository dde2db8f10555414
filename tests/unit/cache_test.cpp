// The cache of executables: one compilation per key, none for a valid entry, and a new one for an
// entry that is damaged or belongs to another model.
#include "compile/cache.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "compile/pipeline.hpp"
#include "engine_testing.hpp"
#include "error_text.hpp"
#include "include/poptorch/custom_op.hpp"
#include "scratch.hpp"
#include "session/executable_file.hpp"
#include "session/session.hpp"
#include "storage/container.hpp"
#include "support/build_id.hpp"
#include "support/error.hpp"

namespace poptorch::session {
namespace {

using support::UserError;

std::string text_with(const std::string& op, const std::string& name = "y") {
  return "graph @main(%x: f32[2,2]) -> (f32[2,2]) {\n  %" + name + " = " + op +
         "(%x) : f32[2,2]\n  return %" + name + "\n}\n";
}

std::unique_ptr<Executable> make(const std::string& folder, const std::string& text,
                                 const ir::Execution& execution = {}) {
  return compile(emulator::parsed(text, execution), {.threads = 1, .cache_path = folder});
}

// Returns whether it came from the cache, which holds no earlier IR stages.
bool is_hit(const std::string& folder, const std::string& text,
            const ir::Execution& execution = {}) {
  return !make(folder, text, execution)->has_forms();
}

std::string logged(const std::function<void()>& work) {
  ::testing::internal::CaptureStderr();
  work();
  return ::testing::internal::GetCapturedStderr();
}

TEST(Cache, KeepsAnExecutableOnce) {
  const Scratch scratch;
  const std::string folder = scratch.path("a/b/cache");
  EXPECT_FALSE(is_hit(folder, text_with("exp")));
  EXPECT_TRUE(is_hit(folder, text_with("exp")));
  EXPECT_FALSE(is_hit(folder, text_with("sin")));
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    ++files;
    EXPECT_EQ(entry.path().extension(), ".poptorch");
    struct stat about{};
    ASSERT_EQ(stat(entry.path().c_str(), &about), 0);
    EXPECT_EQ(about.st_mode & 0777, 0600u);
  }
  EXPECT_EQ(files, 2u);
  struct stat about{};
  ASSERT_EQ(stat(folder.c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777, 0700u);
}

TEST(Cache, GivesWhatWasCompiled) {
  const Scratch scratch;
  const ir::Execution execution{.device_iterations = 3};
  const auto first = make(scratch.path(), text_with("exp"), execution);
  const auto again = make(scratch.path(), text_with("exp"), execution);
  EXPECT_EQ(again->text("program", true), first->text("program", true));
  EXPECT_EQ(again->text("traced"), first->text("traced"));
  EXPECT_EQ(again->execution().device_iterations, 3);
  EXPECT_EQ(again->highest_ipu(), first->highest_ipu());
  EXPECT_THROW(again->text("placed"), UserError);
}

TEST(Cache, KeyFollowsAllThatAProgramDoes) {
  const auto key = [](const std::string& text, const ir::Execution& execution = {},
                      const HostOptions& host = {}) {
    return compile::cache_key(*emulator::parsed(text, execution), host);
  };
  const std::string exp = text_with("exp");
  const std::string plain = key(exp);
  EXPECT_EQ(plain.size(), 32u);
  EXPECT_EQ(plain, key(exp));
  EXPECT_EQ(
      plain,
      key(exp, {}, {.threads = 3, .memory_limit = account::MemoryLimit::kOff, .cache_path = "/x"}));
  ir::Execution trained{.training = true};
  trained.optimiser.emplace();
  std::vector<std::string> keys = {
      plain,
      key(text_with("sin")),
      key(text_with("exp", "z")),
      key("graph @main(%x: f32[2,3]) -> (f32[2,3]) {\n  %y = exp(%x) : f32[2,3]\n  return %y\n}\n"),
      key(exp, {.device_iterations = 2}),
      key(exp, {.replication_factor = 2}),
      key(exp, {.device = "ipu21"}),
      key(exp, {.random_seed = 4}),
      key(exp, {.output_mode = ir::OutputMode::kSum}),
      key(exp, {.strategy = "sharded"}),
      key(exp, trained),
      key(exp, {}, {.round_ipu_count = true})};
  setenv("POPTORCH_DISABLE_PASSES", "canonicalise", 1);
  keys.push_back(key(exp));
  unsetenv("POPTORCH_DISABLE_PASSES");
  std::sort(keys.begin(), keys.end());
  EXPECT_EQ(std::unique(keys.begin(), keys.end()), keys.end());
}

TEST(Cache, KeyFollowsTheGradientsOfCustomOps) {
  const auto declare = [](std::vector<int32_t> of) {
    const custom::Register registered(
        {.domain = "cache",
         .name = "Same",
         .infer = [](const custom::Call& call) { return std::vector{call.input(0)}; },
         .compute = [](const custom::Call&) {},
         .gradient =
             custom::Gradient{
                 .name = "SameGrad", .inputs = {custom::gradient(0)}, .of = std::move(of)}});
  };
  const std::string text =
      "graph @main(%x: f32[2]) -> (f32[2]) {\n  %y = custom(%x) {domain=\"cache\", "
      "name=\"Same\"} : f32[2]\n  return %y\n}\n";
  declare({0});
  const std::string key = compile::cache_key(*emulator::parsed(text, {}), {});
  EXPECT_EQ(key, compile::cache_key(*emulator::parsed(text, {}), {}));
  declare({});
  EXPECT_NE(key, compile::cache_key(*emulator::parsed(text, {}), {}));
}

std::string line_of_exp(int line, const std::string& file) {
  return "graph @main(%x: f32[2,2]) -> (f32[2,2]) {\n  %y = exp(%x) : f32[2,2] loc(\"" + file +
         "\":" + std::to_string(line) + ")\n  return %y\n}\n";
}

TEST(Cache, KeepsProgramsAndNotTheirLines) {
  const Scratch scratch;
  const auto first = make(scratch.path(), line_of_exp(3, "m.py"));
  const auto moved = make(scratch.path(), line_of_exp(70, "n.py"));
  EXPECT_EQ(scratch.names().size(), 1u);
  EXPECT_EQ(moved->text("program"), first->text("program"));
  EXPECT_NE(first->text("program", true).find("loc(\"m.py\":3)"), std::string::npos);
  EXPECT_NE(moved->text("program", true).find("loc(\"n.py\":70)"), std::string::npos);
  EXPECT_EQ(moved->text("program", true).find("m.py"), std::string::npos);
}

std::string only_file(const Scratch& scratch) {
  EXPECT_EQ(scratch.names().size(), 1u);
  return scratch.path(scratch.names().at(0));
}

TEST(Cache, ReplacesWhatIsDamagedOrAnothers) {
  const Scratch scratch, other;
  make(scratch.path(), text_with("exp"));
  make(other.path(), text_with("sin"));
  const std::string entry = only_file(scratch), good = content_of(entry);
  std::string flipped = good, program = good;
  flipped[20] = static_cast<char>(flipped[20] ^ 1);
  char& letter = program.at(program.find("f32[2,2]"));
  letter = static_cast<char>(letter ^ 1);
  const std::string bad[] = {"",        "text",  good.substr(0, good.size() / 2),
                             flipped,   program, content_of(only_file(other)),
                             good + "x"};
  for (const std::string& bytes : bad) {
    put(entry, bytes);
    bool hit = true;
    const std::string log = logged([&] { hit = is_hit(scratch.path(), text_with("exp")); });
    EXPECT_FALSE(hit);
    EXPECT_NE(log.find("The cached executable " + entry + " cannot be used: "), std::string::npos)
        << log;
    EXPECT_NE(log.find("The model is compiled again and the file replaced."), std::string::npos)
        << log;
    EXPECT_TRUE(content_of(entry) == good);
    EXPECT_TRUE(is_hit(scratch.path(), text_with("exp")));
  }
}

// A key contains the version, so only a manual change could put an entry of another version there.
TEST(Cache, ReplacesAnotherVersions) {
  const Scratch scratch;
  make(scratch.path(), text_with("exp"));
  const std::string entry = only_file(scratch), good = content_of(entry);
  std::string about, program;
  {
    const storage::Container file(entry);
    about = file.read("about");
    program = file.read("program");
  }
  const std::string ours = "\"version\":\"" + support::version() + "\"";
  about.replace(about.find(ours), ours.size(), "\"version\":\"0.0.1\"");
  storage::ContainerWriter writer(entry, 2);
  writer.begin("about");
  writer.add(about);
  writer.begin("program");
  writer.add(program);
  writer.commit();
  bool hit = true;
  const std::string log = logged([&] { hit = is_hit(scratch.path(), text_with("exp")); });
  EXPECT_FALSE(hit) << log;
  EXPECT_NE(log.find("cannot be used"), std::string::npos) << log;
  EXPECT_TRUE(content_of(entry) == good);
}

TEST(Cache, RefusesAFolderThatOthersMayWriteTo) {
  const Scratch scratch;
  ASSERT_EQ(chmod(scratch.path().c_str(), 0777), 0);
  EXPECT_EQ(text_of<UserError>([&] { make(scratch.path(), text_with("exp")); }),
            "[cache] other users can write to " + scratch.path() +
                ", and so could choose what runs here. Remove their permission (chmod 700), or "
                "choose another "
                "folder in enableExecutableCaching() or POPTORCH_CACHE_DIR.");
  EXPECT_TRUE(scratch.names().empty());
  ASSERT_EQ(chmod(scratch.path().c_str(), 0700), 0);
}

TEST(Cache, RefusesWhatIsNoFolder) {
  const Scratch scratch;
  put(scratch.path("file"), "");
  EXPECT_EQ(text_of<UserError>([&] { make(scratch.path("file"), text_with("exp")); }),
            "Cache folder " + scratch.path("file") +
                " is not writable. Choose another one in enableExecutableCaching() or "
                "POPTORCH_CACHE_DIR.");
  EXPECT_THROW(make("/proc/no/such", text_with("exp")), UserError);
}

// Root may write to every folder. For root, only a folder that does not exist is tested.
TEST(Cache, RefusesAFolderThatItMayNotWriteTo) {
  if (geteuid() == 0) GTEST_SKIP() << "root may write to every folder";
  const Scratch scratch;
  ASSERT_EQ(chmod(scratch.path().c_str(), 0500), 0);
  EXPECT_THROW(make(scratch.path(), text_with("exp")), UserError);
  ASSERT_EQ(chmod(scratch.path().c_str(), 0700), 0);
}

TEST(Cache, ThreadsAndProcessesCompileAKeyOnce) {
  const Scratch scratch;
  std::vector<pid_t> children;
  for (int i = 0; i < 3; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      int compiled = 0;
      for (const char* op : {"exp", "sin", "cos", "relu"}) {
        compiled += is_hit(scratch.path(), text_with(op)) ? 0 : 1;
      }
      _exit(compiled);
    }
    children.push_back(child);
  }
  int compiled = 0;
  for (const pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFEXITED(status));
    compiled += WEXITSTATUS(status);
  }
  EXPECT_EQ(compiled, 4);
  EXPECT_EQ(scratch.names().size(), 4u);
  std::atomic<int> again = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] { again += is_hit(scratch.path(), text_with("tanh")) ? 0 : 1; });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(again, 1);
  EXPECT_EQ(scratch.names().size(), 5u);
}

TEST(Cache, WritesNothingWhileSomeoneWatchesThePasses) {
  const Scratch scratch;
  setenv("POPTORCH_REPARSE", "1", 1);
  EXPECT_FALSE(is_hit(scratch.path(), text_with("exp")));
  EXPECT_TRUE(scratch.names().empty());
  unsetenv("POPTORCH_REPARSE");
}

}  // namespace
}  // namespace poptorch::session
