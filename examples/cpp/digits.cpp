// Trains a small convolutional network on handwritten digits, on one emulated IPU, in a process
// without Python. The only argument, optional, is a folder with MNIST's four files.
#include "digits.hpp"

#include <cstdio>
#include <poptorch/poptorch.hpp>
#include <utility>

constexpr int64_t kBatch = 16, kDeviceIterations = 4, kTestBatch = 40;
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

void train(poptorch::Model<NetworkImpl>& model, const Network& network, const Digits& digits) {
  const int64_t per_call = kBatch * kDeviceIterations;
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    if (epoch == kEpochs * 7 / 10)  // finish with smaller steps
      model.setOptimizer(torch::optim::SGD(network->parameters(), 0.02));
    const torch::Tensor order = torch::randperm(digits.size());
    double loss = 0;
    int calls = 0;
    for (int64_t start = 0; start + per_call <= digits.size(); start += per_call, ++calls) {
      const torch::Tensor rows = order.narrow(0, start, per_call);
      const auto outputs = model(digits.images.index({rows}), digits.labels.index({rows}));
      loss += outputs[1].item<double>();
    }
    std::printf("epoch %d/%d: loss %.4f\n", epoch + 1, kEpochs, loss / calls);
  }
}

int main(int count, char** arguments) try {
  torch::manual_seed(0);
  const std::string folder = count > 1 ? arguments[1] : DIGITS_FOLDER;
  const Digits training(folder, "train"), test(folder, "t10k");

  Network network;
  const torch::optim::SGD optimizer(network->parameters(), 0.1);
  const auto options = poptorch::Options().deviceIterations(kDeviceIterations);
  auto training_model = poptorch::trainingModel(network, options, optimizer);
  train(training_model, network, training);
  const poptorch::Report report = training_model.report();
  std::printf("IPU 0 held %.2f of %.0f MiB\n", report.ipus[0].needed() / double{1 << 20},
              report.ipus[0].capacity_bytes / double{1 << 20});
  std::printf("a step took %lld emulated cycles\n",
              static_cast<long long>(report.cycles_per_run / kDeviceIterations));

  training_model.copyWeightsToHost();
  auto inference_model = poptorch::inferenceModel(network);
  double found = 0;
  for (int64_t start = 0; start < test.size(); start += kTestBatch) {
    const auto scores = inference_model(test.images.narrow(0, start, kTestBatch))[0];
    found += (scores.argmax(1) == test.labels.narrow(0, start, kTestBatch)).sum().item<double>();
  }
  std::printf("test accuracy: %.4f\n", found / test.size());
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
