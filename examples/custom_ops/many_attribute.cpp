// The guide's ManyAttributeOp: one attribute of each type. It refuses other values than those of
// the listing, and gives its input unchanged.
#include <algorithm>
#include <poptorch/custom_op.hpp>
#include <stdexcept>

using namespace poptorch::custom;

namespace {

using Floats = std::vector<float>;
using Ints = std::vector<int64_t>;
using Strings = std::vector<std::string>;

template <typename T>
void expect(const Call& call, const std::string& name, const T& value) {
  if (call.get<T>(name) != value) throw std::invalid_argument(name + " has another value");
}

std::vector<Type> checked(const Call& call) {
  expect(call, "float_one", 1.0f);
  expect(call, "float_minus_two", -2.0f);
  expect(call, "int_zero", int64_t{0});
  expect(call, "int_minus_five", int64_t{-5});
  expect(call, "floats_one_two_three", Floats{1, 2, 3});
  expect(call, "floats_minus_one_two_three", Floats{-1, -2, -3});
  expect(call, "ints_one_two_three", Ints{1, 2, 3});
  expect(call, "ints_minus_one_two_three", Ints{-1, -2, -3});
  expect(call, "a_string", std::string("string with quotes and slash \" ' \\ end"));
  expect(call, "strs", Strings{"abc", "def", "ghi"});
  if (call.input(0).dtype != DType::Float) throw std::invalid_argument("x must be float32");
  return {call.input(0)};
}

void copy(const Call& call) {
  std::copy_n(call.in<float>(0), call.input(0).elements(), call.out<float>(0));
}

const Register registered({
    .domain = "test.poptorch",
    .name = "ManyAttributeOp",
    .attributes = {attribute<float>("float_one"), attribute<float>("float_minus_two"),
                   attribute<int64_t>("int_zero"), attribute<int64_t>("int_minus_five"),
                   attribute<Floats>("floats_one_two_three"),
                   attribute<Floats>("floats_minus_one_two_three"),
                   attribute<Ints>("ints_one_two_three"),
                   attribute<Ints>("ints_minus_one_two_three"), attribute<std::string>("a_string"),
                   attribute<Strings>("strs")},
    .infer = checked,
    .compute = copy,
});

}  // namespace
