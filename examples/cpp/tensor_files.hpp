// Tensors by name, in files that torch.save writes and torch.load reads in Python.
#pragma once

#include <torch/serialize.h>
#include <torch/types.h>

#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

using NamedTensors = std::map<std::string, torch::Tensor>;

inline NamedTensors load_tensors(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> data{std::istreambuf_iterator<char>(file), {}};
  if (data.empty()) throw std::runtime_error("cannot read " + path);
  NamedTensors tensors;
  for (const auto& entry : torch::pickle_load(data).toGenericDict()) {
    tensors[entry.key().toStringRef()] = entry.value().toTensor();
  }
  return tensors;
}

inline void save_tensors(const std::string& path, const NamedTensors& tensors) {
  c10::Dict<std::string, torch::Tensor> all;
  for (const auto& [name, tensor] : tensors) all.insert(name, tensor);
  const std::vector<char> data = torch::pickle_save(all);
  std::ofstream(path, std::ios::binary)
      .write(data.data(), static_cast<std::streamsize>(data.size()));
}

// Gives parameters and buffers the values that bear their names.
template <typename Module>
void take_weights(Module& module, const NamedTensors& values) {
  const torch::NoGradGuard no_grad;
  for (const auto& list : {module.named_parameters(), module.named_buffers()}) {
    for (const auto& item : list) item.value().copy_(values.at(item.key()));
  }
}

template <typename Module>
NamedTensors weights_of(const Module& module) {
  NamedTensors values;
  for (const auto& list : {module.named_parameters(), module.named_buffers()}) {
    for (const auto& item : list) values[item.key()] = item.value().detach().clone();
  }
  return values;
}
