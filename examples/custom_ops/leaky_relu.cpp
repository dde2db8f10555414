// The guide's LeakyRelu: x, or alpha·x where that is negative. The gradient op gets the attribute
// that the op was given, as it declares it, too.
#include <poptorch/custom_op.hpp>
#include <stdexcept>

using namespace poptorch::custom;

namespace {

std::vector<Type> like_the_first(const Call& call) {
  if (call.input(0).dtype != DType::Float) throw std::invalid_argument("x must be float32");
  return {call.input(0)};
}

void leaky_relu(const Call& call) {
  const auto alpha = call.get<float>("alpha");
  const auto* x = call.in<float>(0);
  auto* y = call.out<float>(0);
  for (int64_t i = 0; i < call.input(0).elements(); ++i) y[i] = x[i] < 0 ? alpha * x[i] : x[i];
}

void leaky_relu_grad(const Call& call) {
  const auto alpha = call.get<float>("alpha");
  const auto *x = call.in<float>(0), *of_y = call.in<float>(1);
  auto* of_x = call.out<float>(0);
  for (int64_t i = 0; i < call.input(0).elements(); ++i) {
    of_x[i] = x[i] < 0 ? alpha * of_y[i] : of_y[i];
  }
}

const Register registered({
    .domain = "com.acme",
    .name = "LeakyRelu",
    .attributes = {attribute("alpha", 0.01f)},
    .infer = like_the_first,
    .compute = leaky_relu,
    .gradient = Gradient{.name = "LeakyReluGrad", .inputs = {input(0), gradient(0)}, .of = {0}},
});

const Register registered_gradient({
    .domain = "com.acme",
    .name = "LeakyReluGrad",
    .inputs = 2,
    .attributes = {attribute("alpha", 0.01f)},
    .infer = like_the_first,
    .compute = leaky_relu_grad,
});

}  // namespace
