#include "emulator/providers/custom_provider.hpp"

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <string>

#include "ops/custom_ops.hpp"

namespace poptorch::emulator {
namespace {

thread_local bool is_inside = false;

struct Inside {
  Inside() { is_inside = true; }
  ~Inside() { is_inside = false; }
};

struct Prepared {
  ops::CustomCall call;
  int32_t replica_count;
};

// Calls `work`. If it throws, writes the error's text to `error` and returns false.
template <typename Work>
bool explained(char* error, size_t size, Work work) {
  try {
    work();
    return true;
  } catch (const std::exception& failure) {
    std::snprintf(error, size, "%s", failure.what());
  } catch (...) {
    std::snprintf(error, size, "it threw something that is not a std::exception");
  }
  return false;
}

Prepared* make_prepared(const PoptorchForeignOp& op) {
  std::map<std::string, std::string> attrs = {{"version", "1"}, {"attributes", "{}"}};
  for (int32_t i = 0; i < op.attr_count; ++i) attrs[op.attrs[i].name] = op.attrs[i].value;
  std::vector<ir::Type> types;
  for (int32_t i = 0; i < op.input_count; ++i) {
    const PoptorchForeignType& type = op.inputs[i];
    types.push_back(
        {static_cast<ir::DType>(type.dtype), ir::Shape(type.shape, type.shape + type.rank)});
  }
  const ops::CustomId id{attrs["domain"], attrs["name"], std::stoll(attrs["version"])};
  return new Prepared{{id, attrs["attributes"], std::move(types)}, op.replica_count};
}

void* prepare(const PoptorchForeignOp* op, char* error, size_t size) {
  void* prepared = nullptr;
  explained(error, size, [&] { prepared = make_prepared(*op); });
  return prepared;
}

int32_t run(void* handle, void* const* buffers, int32_t replica, char* error, size_t size) {
  const auto& prepared = *static_cast<const Prepared*>(handle);
  return explained(error, size,
                   [&] {
                     const Inside inside;
                     prepared.call.run(buffers, replica, prepared.replica_count);
                   })
             ? 0
             : 1;
}

void release(void* handle) { delete static_cast<Prepared*>(handle); }

}  // namespace

const PoptorchForeignProvider& custom_provider() {
  static const PoptorchForeignProvider provider{"custom", kForeignVersion, prepare, run, release};
  return provider;
}

bool inside_custom_op() { return is_inside; }

}  // namespace poptorch::emulator
