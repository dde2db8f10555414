// Trains a small convolutional network on handwritten digits, on one emulated IPU, in a process
// without Python. The only argument, optional, is a folder with MNIST's four files.
#include <torch/torch.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <poptorch/poptorch.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

constexpr int64_t kBatch = 16;
constexpr int64_t kDeviceIterations = 4;
constexpr int kEpochs = 10;

// Two convolutions and two dense layers. A PopTorch model computes its own loss.
struct NetworkImpl : torch::nn::Module {
  NetworkImpl() {
    using namespace torch::nn;
    layers = Sequential(Conv2d(1, 32, 3), MaxPool2d(2), ReLU(), Conv2d(32, 64, 3), MaxPool2d(2),
                        ReLU(), Flatten(), Linear(1600, 128), ReLU(), Linear(128, 10));
    register_module("layers", layers);
  }

  torch::Tensor forward(const torch::Tensor& images) { return layers->forward(images); }
  std::pair<torch::Tensor, torch::Tensor> forward(const torch::Tensor& images,
                                                  const torch::Tensor& labels) {
    const torch::Tensor scores = forward(images);
    return {scores, torch::nn::functional::cross_entropy(scores, labels)};
  }

  torch::nn::Sequential layers{nullptr};
};
TORCH_MODULE(Network);

// One file of MNIST's format: type, rank, dimensions big-endian, then bytes.
torch::Tensor read_idx(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<uint8_t> data{std::istreambuf_iterator<char>(file), {}};
  if (data.size() < 4) throw std::runtime_error("cannot read " + path);
  std::vector<int64_t> shape;
  for (size_t at = 4; shape.size() < data[3]; at += 4) {
    shape.push_back(data.at(at) << 24 | data.at(at + 1) << 16 | data.at(at + 2) << 8 |
                    data.at(at + 3));
  }
  return torch::from_blob(data.data() + 4 + 4 * shape.size(), shape, torch::kUInt8).clone();
}

// Images as float32 [n, 1, 28, 28] in 0..1 (smaller scans are enlarged), and labels.
struct Digits {
  torch::Tensor images, labels;

  Digits(const std::string& folder, const std::string& part) {
    namespace F = torch::nn::functional;
    images = read_idx(folder + "/" + part + "-images-idx3-ubyte").to(torch::kFloat).unsqueeze(1);
    labels = read_idx(folder + "/" + part + "-labels-idx1-ubyte").to(torch::kLong);
    auto enlarge = F::InterpolateFuncOptions().size(std::vector<int64_t>{28, 28});
    images = F::interpolate(images / 255, enlarge.mode(torch::kBilinear).align_corners(false));
  }
  int64_t size() const { return labels.size(0); }
};

void train(poptorch::Model<NetworkImpl>& model, const Network& network, const Digits& digits) {
  const int64_t per_call = kBatch * kDeviceIterations;
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    if (epoch == kEpochs * 7 / 10)  // finish with smaller steps
      model.setOptimizer(torch::optim::SGD(network->parameters(), 0.02));
    const torch::Tensor order = torch::randperm(digits.size());
    double loss = 0;
    int calls = 0;
    for (int64_t start = 0; start + per_call <= digits.size(); start += per_call, ++calls) {
      const torch::Tensor batch = order.narrow(0, start, per_call);
      const auto outputs =
          model(digits.images.index_select(0, batch), digits.labels.index_select(0, batch));
      loss += outputs[1].item<double>();
    }
    std::printf("epoch %d/%d: loss %.4f\n", epoch + 1, kEpochs, loss / calls);
    std::fflush(stdout);
  }
}

double accuracy(poptorch::Model<NetworkImpl>& model, const Digits& digits) {
  const int64_t batch = 40, batches = digits.size() / batch;
  int64_t found = 0;
  for (int64_t i = 0; i < batches; ++i) {
    const auto scores = model(digits.images.narrow(0, i * batch, batch))[0];
    found += (scores.argmax(1) == digits.labels.narrow(0, i * batch, batch)).sum().item<int64_t>();
  }
  return static_cast<double>(found) / (batches * batch);
}

// Prints what the emulated IPU held, and how long a step would have taken on it.
void describe(const poptorch::Report& report) {
  const double mib = 1 << 20;
  for (size_t ipu = 0; ipu < report.ipus.size(); ++ipu) {
    const poptorch::IpuMemory& memory = report.ipus[ipu];
    const double used = memory.state_bytes + memory.arena_bytes + memory.code_bytes;
    std::printf(
        "IPU %zu held %.2f of %.0f MiB: %.2f weights and optimiser state, %.2f activations, "
        "%.2f code\n",
        ipu, used / mib, memory.capacity_bytes / mib, memory.state_bytes / mib,
        memory.arena_bytes / mib, memory.code_bytes / mib);
  }
  std::printf("a step took %lld emulated cycles, %.1f us on the device\n",
              static_cast<long long>(report.cycles_per_run / kDeviceIterations),
              1e6 * report.seconds_per_run / kDeviceIterations);
}

}  // namespace

int main(int count, char** arguments) try {
  torch::manual_seed(0);
  const std::string folder = count > 1 ? arguments[1] : DIGITS_FOLDER;
  const Digits training(folder, "train"), test(folder, "t10k");
  std::printf("%lld training and %lld test images\n", static_cast<long long>(training.size()),
              static_cast<long long>(test.size()));

  Network network;
  const torch::optim::SGD optimizer(network->parameters(), 0.1);
  const auto options = poptorch::Options().deviceIterations(kDeviceIterations);
  auto training_model = poptorch::trainingModel(network, options, optimizer);
  train(training_model, network, training);
  describe(training_model.report());

  training_model.copyWeightsToHost();
  auto inference_model = poptorch::inferenceModel(network);
  std::printf("test accuracy: %.4f\n", accuracy(inference_model, test));
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
