// Runs work in another process, for tests of processes that share memory.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <exception>
#include <functional>
#include <string>

namespace poptorch::emulator {

struct Child {
  pid_t process = 0;
  int pipe = -1;
  // Returns the text that its work returned or raised; "" if it was killed.
  std::string end() {
    std::string text;
    char buffer[512];
    for (ssize_t n; (n = read(pipe, buffer, sizeof buffer)) > 0;) text.append(buffer, n);
    close(pipe);
    waitpid(process, nullptr, 0);
    return text;
  }
};

inline Child start(const std::function<std::string()>& work) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t process = fork();
  if (process != 0) {
    close(ends[1]);
    return {process, ends[0]};
  }
  std::string text;
  try {
    text = work();
  } catch (const std::exception& error) {
    text = error.what();
  }
  (void)!write(ends[1], text.data(), text.size());
  _exit(0);
}

}  // namespace poptorch::emulator
