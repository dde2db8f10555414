// Custom ops of domain "trial" that only tests want: of many element types, of replicas, of other
// shapes than their inputs', and such that fail.
#include <algorithm>
#include <poptorch/custom_op.hpp>
#include <stdexcept>

using namespace poptorch::custom;

namespace {

std::vector<Type> like_the_first(const Call& call) { return {call.input(0)}; }

int64_t count(const Call& call) { return call.input(0).elements(); }

// Twice each element of int32; half-precision numbers as they are; the dtype as a number beside it.
const Register kinds({
    .domain = "trial",
    .name = "Kinds",
    .outputs = 2,
    .infer = [](const Call& call) { return std::vector{call.input(0), Type{DType::Int32, {}}}; },
    .compute =
        [](const Call& call) {
          *call.out<int32_t>(1) = static_cast<int32_t>(call.input(0).dtype);
          for (int64_t i = 0; i < count(call); ++i) {
            if (call.input(0).dtype == DType::Int32) {
              call.out<int32_t>(0)[i] = 2 * call.in<int32_t>(0)[i];
            } else if (call.input(0).dtype == DType::Half) {
              call.out<uint16_t>(0)[i] = call.in<uint16_t>(0)[i];
            } else {
              call.out<bool>(0)[i] = !call.in<bool>(0)[i];
            }
          }
        },
});

// The sum of all elements, which is of no dimension whatever the template says; without a gradient.
const Register sum_of_all({
    .domain = "trial",
    .name = "SumOfAll",
    .infer = [](const Call&) { return std::vector{Type{DType::Float, {}}}; },
    .compute =
        [](const Call& call) {
          *call.out<float>(0) = 0;
          for (int64_t i = 0; i < count(call); ++i) *call.out<float>(0) += call.in<float>(0)[i];
        },
});

// x and, beside it, the replica's number and how many there are.
const Register replica({
    .domain = "trial",
    .name = "Replica",
    .outputs = 2,
    .infer = [](const Call& call) { return std::vector{call.input(0), Type{DType::Int32, {2}}}; },
    .compute =
        [](const Call& call) {
          std::copy_n(call.in<float>(0), count(call), call.out<float>(0));
          call.out<int32_t>(1)[0] = call.replica();
          call.out<int32_t>(1)[1] = call.replicas();
        },
});

void divide(const Call& call) {
  for (int64_t i = 0; i < count(call); ++i) {
    call.out<float>(0)[i] = call.in<float>(0)[i] / static_cast<float>(call.replicas());
  }
}

// The mean of x over all replicas; x arrives as their sum. So does its gradient, by itself.
const Register mean({
    .domain = "trial",
    .name = "MeanOfReplicas",
    .infer = like_the_first,
    .compute = divide,
    .gradient = Gradient{.name = "MeanGrad", .inputs = {gradient(0)}, .of = {0}},
    .summed_inputs = {0},
});
const Register mean_grad(
    {.domain = "trial", .name = "MeanGrad", .infer = like_the_first, .compute = divide});

const Register fails({
    .domain = "trial",
    .name = "FailsAbove",
    .attributes = {attribute<float>("limit")},
    .infer = like_the_first,
    .compute =
        [](const Call& call) {
          for (int64_t i = 0; i < count(call); ++i) {
            if (call.in<float>(0)[i] > call.get<float>("limit")) {
              throw std::domain_error("element " + std::to_string(i) + " is above the limit");
            }
            call.out<float>(0)[i] = call.in<float>(0)[i];
          }
        },
});

// Its gradient op gives a scalar for a vector.
const Register wrong_gradient({
    .domain = "trial",
    .name = "WrongGradient",
    .infer = like_the_first,
    .compute =
        [](const Call& call) { std::copy_n(call.in<float>(0), count(call), call.out<float>(0)); },
    .gradient = Gradient{.name = "SumOfAll", .inputs = {gradient(0)}, .of = {0}},
});

// The gradient op is in a library that nobody loaded.
const Register lost_gradient({
    .domain = "trial",
    .name = "LostGradient",
    .infer = like_the_first,
    .compute = divide,
    .gradient = Gradient{.name = "Elsewhere", .inputs = {gradient(0)}, .of = {0}},
});

// A table of another version of the interface, as an older or newer library would have.
const int32_t refused = [] {
  static PoptorchCustomOp other{};
  other.abi = POPTORCH_CUSTOM_OP_ABI + 1;
  other.version = 1;
  other.domain = "trial";
  other.name = "OtherInterface";
  return poptorch_register_custom_op(&other);
}();

}  // namespace
