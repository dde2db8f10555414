// Reads handwritten digits from files of MNIST's format.
#pragma once

#include <torch/nn.h>

#include <cstdint>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

// One file of MNIST's format: type, rank, dimensions big-endian, then bytes.
inline torch::Tensor read_idx(const std::string& path) {
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
