#include "frontends/torch/gloo_wire.hpp"

#include <ATen/ops/from_blob.h>

#include <chrono>
#include <stdexcept>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>

namespace poptorch::frontend {
namespace {

using Backend = c10::intrusive_ptr<c10d::Backend>;
using Work = c10::intrusive_ptr<c10d::Work>;

// The bound of a wait: ten years, because a wait that times out breaks the connection.
constexpr std::chrono::hours kForEver{24 * 3650};

// Returns the reason, which is the middle of a text such as
// "[/file.cc:553] Connection closed by peer [127.0.0.1]:49371. This is typically ...".
std::string reason_of(const std::exception& error) {
  std::string text = error.what();
  text = text.substr(0, text.find('\n'));
  if (text.starts_with('[')) text.erase(0, std::min(text.size(), text.find("] ") + 2));
  text = text.substr(0, text.find(". "));
  return "its connection is lost: " + text.substr(0, 200);
}

template <typename Does>
auto with_reason(Does does) {
  try {
    return does();
  } catch (const std::exception& error) {
    throw std::runtime_error(reason_of(error));
  }
}

class GlooTransfer final : public emulator::Wire::Transfer {
 public:
  explicit GlooTransfer(Work work) : work_(std::move(work)) {}
  void wait() override {
    with_reason([&] { return work_->wait(kForEver); });
  }
  void abort() override { work_->abort(); }

 private:
  Work work_;
};

class GlooWire final : public emulator::Wire {
 public:
  GlooWire(Backend backend, int other, int connections)
      : backend_(std::move(backend)), other_(other), connections_(connections) {}
  std::unique_ptr<Transfer> send(std::byte* data, int64_t bytes, int lane) override {
    return with_reason([&] {
      std::vector<at::Tensor> tensors{at::from_blob(data, {bytes}, at::kByte)};
      return std::make_unique<GlooTransfer>(backend_->send(tensors, other_, tag_of(lane)));
    });
  }
  std::unique_ptr<Transfer> receive(std::byte* into, int64_t most, int lane) override {
    return with_reason([&] {
      std::vector<at::Tensor> tensors{at::from_blob(into, {most}, at::kByte)};
      return std::make_unique<GlooTransfer>(backend_->recv(tensors, other_, tag_of(lane)));
    });
  }

 private:
  // Gloo sends a tag over connection `tag % connections_`.
  int tag_of(int lane) const {
    if (lane == 0 || connections_ == 1) return lane;
    const int others = connections_ - 1;
    return (lane - 1) / others * connections_ + 1 + (lane - 1) % others;
  }

  Backend backend_;
  int other_, connections_;
};

}  // namespace

std::vector<std::unique_ptr<emulator::Wire>> wires_of(const std::string& group_name,
                                                      int connections) {
  const auto group = c10d::resolve_process_group(group_name);
  const Backend backend = group->getBackend(c10::DeviceType::CPU);
  std::vector<std::unique_ptr<emulator::Wire>> wires(static_cast<size_t>(group->getSize()));
  for (int other = 0; other < group->getSize(); ++other) {
    if (other == group->getRank()) continue;
    wires[other] = std::make_unique<GlooWire>(backend, other, connections);
  }
  return wires;
}

}  // namespace poptorch::frontend
