// The guide's Cube: x³ + bias, and x², which the gradient uses again. Both inputs are of one shape.
#include <poptorch/custom_op.hpp>
#include <stdexcept>

using namespace poptorch::custom;

namespace {

std::vector<Type> like_inputs(const Call& call) {
  for (int i = 0; i < call.inputs(); ++i) {
    if (call.input(i).dtype != DType::Float || call.input(i).shape != call.input(0).shape) {
      throw std::invalid_argument("the inputs must be float32 and of one shape");
    }
  }
  return {call.input(0), call.input(0)};
}

void cube(const Call& call) {
  const auto *x = call.in<float>(0), *bias = call.in<float>(1);
  auto *cubes = call.out<float>(0), *squares = call.out<float>(1);
  for (int64_t i = 0; i < call.input(0).elements(); ++i) {
    squares[i] = x[i] * x[i];
    cubes[i] = squares[i] * x[i] + bias[i];
  }
}

// The gradient of x is 3·x²·(the cubes' gradient) + 2·x·(the squares' gradient); that of the bias
// is the cubes' gradient.
void cube_grad(const Call& call) {
  const auto *x = call.in<float>(0), *squares = call.in<float>(1);
  const auto *of_cubes = call.in<float>(2), *of_squares = call.in<float>(3);
  auto *of_x = call.out<float>(0), *of_bias = call.out<float>(1);
  for (int64_t i = 0; i < call.input(0).elements(); ++i) {
    of_x[i] = 3 * squares[i] * of_cubes[i] + 2 * x[i] * of_squares[i];
    of_bias[i] = of_cubes[i];
  }
}

Cost three_operations(const Call& call) {
  const auto elements = static_cast<double>(call.input(0).elements());
  return {.flops = 3 * elements, .bytes = 4 * 4 * elements};
}

const Register registered({
    .domain = "com.acme",
    .name = "Cube",
    .inputs = 2,
    .outputs = 2,
    .infer = like_inputs,
    .compute = cube,
    .cost = three_operations,
    .gradient = Gradient{.name = "CubeGrad",
                         .inputs = {input(0), output(1), gradient(0), gradient(1)},
                         .of = {0, 1}},
});

const Register registered_gradient({
    .domain = "com.acme",
    .name = "CubeGrad",
    .inputs = 4,
    .outputs = 2,
    .infer = like_inputs,
    .compute = cube_grad,
});

}  // namespace
