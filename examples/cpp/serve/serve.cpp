// Reads handwritten digits with an exported executable, without torch and without Python.
// Usage: serve digits.poptorch images-idx3-ubyte
// Prints one digit a line. export_digits.py makes the first file; the second is of MNIST's format.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <poptorch/runtime.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

constexpr size_t kHeader = 16;  // of MNIST's format: type, number of images, height, width
constexpr float kWhite = 255;

std::vector<uint8_t> read_images(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<uint8_t> data{std::istreambuf_iterator<char>(file), {}};
  if (data.size() < kHeader) throw std::runtime_error("cannot read " + path);
  data.erase(data.begin(), data.begin() + kHeader);
  return data;
}

void serve(const std::string& executable, const std::string& images) {
  poptorch::runtime::Model model(executable);
  const poptorch::runtime::Tensor& in = model.inputs().at(0);
  const poptorch::runtime::Tensor& out = model.outputs().at(0);
  const auto batch = static_cast<size_t>(in.shape.at(0));
  const size_t pixels = in.elements() / batch, classes = out.elements() / batch;
  const std::vector<uint8_t> data = read_images(images);

  std::vector<float> input(in.elements()), scores(out.elements());
  for (size_t first = 0; first * pixels < data.size(); first += batch) {
    const size_t count = std::min(batch, data.size() / pixels - first);
    for (size_t i = 0; i < count * pixels; ++i) input[i] = data[first * pixels + i] / kWhite;
    model.run({input.data()}, {scores.data()});
    for (size_t image = 0; image < count; ++image) {
      const float* of_image = scores.data() + image * classes;
      std::printf("%td\n", std::max_element(of_image, of_image + classes) - of_image);
    }
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) {
    std::fprintf(stderr, "usage: serve <executable> <images in MNIST's format>\n");
    return 2;
  }
  try {
    serve(arguments[1], arguments[2]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
