// A custom op for tests and fuzzers, as a library would declare it: factor·x + shift + the
// replica's number, where `x` may not be above 100.
#include <stdexcept>

#include "include/poptorch/custom_op.hpp"

namespace poptorch::custom {
namespace {

std::vector<Type> of_one_type(const Call& call) {
  for (int i = 0; i < call.inputs(); ++i) {
    if (call.input(i).dtype != DType::Float) throw std::invalid_argument("inputs must be float32");
    if (call.input(i) != call.input(0)) throw std::invalid_argument("inputs must be of one shape");
  }
  return std::vector<Type>(static_cast<size_t>(call.inputs() == 1 ? 2 : 1), call.input(0));
}

void scale(const Call& call) {
  const auto *x = call.in<float>(0), *shift = call.in<float>(1);
  for (int64_t i = 0; i < call.input(0).elements(); ++i) {
    if (x[i] > 100) throw std::domain_error("element " + std::to_string(i) + " is too large");
    call.out<float>(0)[i] =
        call.get<float>("factor") * x[i] + shift[i] + static_cast<float>(call.replica());
  }
}

void scale_grad(const Call& call) {
  for (int64_t i = 0; i < call.input(0).elements(); ++i) {
    call.out<float>(0)[i] = call.get<float>("factor") * call.in<float>(0)[i];
    call.out<float>(1)[i] = call.in<float>(0)[i];
  }
}

const Register kScale({.domain = "test",
                       .name = "Scale",
                       .inputs = 2,
                       .attributes = {attribute("factor", 2.0f), attribute("label", "none")},
                       .infer = of_one_type,
                       .compute = scale,
                       .gradient = Gradient{
                           .name = "ScaleGrad", .inputs = {gradient(0)}, .of = {0, 1}}});
const Register kScaleGrad({.domain = "test",
                           .name = "ScaleGrad",
                           .outputs = 2,
                           .attributes = {attribute<float>("factor")},
                           .infer = of_one_type,
                           .compute = scale_grad});
const Register kScaleSums({.domain = "test",
                           .name = "ScaleSums",
                           .version = 3,
                           .inputs = 2,
                           .attributes = {attribute<float>("factor")},
                           .infer = of_one_type,
                           .compute = scale,
                           .summed_inputs = {0}});

}  // namespace
}  // namespace poptorch::custom
