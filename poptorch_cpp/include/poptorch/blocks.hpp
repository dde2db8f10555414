// Annotations that divide a model into blocks. An execution strategy says where a block runs. On
// the host, and outside of a wrapped model's first call, they do nothing.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <optional>
#include <source_location>
#include <string>
#include <utility>

namespace poptorch {

// Assigns what forward computes during its lifetime to a block. Blocks with an empty id are called
// "0", "1", ... in their order. An IPU that the strategy names for the block overrides `ipu_id`.
class Block {
 public:
  explicit Block(const std::string& user_id = "", std::optional<int> ipu_id = std::nullopt,
                 std::source_location where = std::source_location::current());
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  // Begins a block that lasts until the next one begins.
  static void start(const std::string& user_id = "", std::optional<int> ipu_id = std::nullopt,
                    std::source_location where = std::source_location::current());
  // Restarts the automatic ids at "0". Call it first in forward.
  static void useAutoId();
};

// Begins a block at the first use of one of the module's own parameters. The block lasts until the
// next one begins, which may be at a module inside it. The annotation ends with the module, and
// clones do not have it. Annotate modules in the order in which they run. Throws for a second block
// and for a module without parameters. The first call throws for a module that forward does not
// use.
void begin_block(const torch::nn::Module& module, const std::string& user_id = "",
                 std::optional<int> ipu_id = std::nullopt,
                 std::source_location where = std::source_location::current());
// Removes the annotations of the module and of all modules in it.
void remove_blocks(const torch::nn::Module& module);

// Returns a function like `function` whose ops belong to a block.
template <typename Function>
auto BlockFunction(Function function, std::string user_id = "",
                   std::optional<int> ipu_id = std::nullopt,
                   std::source_location where = std::source_location::current()) {
  return [=](auto&&... arguments) -> decltype(auto) {
    const Block block(user_id, ipu_id, where);
    return function(std::forward<decltype(arguments)>(arguments)...);
  };
}

// Returns a function like `function` that begins a block, which lasts until the next one begins.
template <typename Function>
auto BeginBlockFunction(Function function, std::string user_id = "",
                        std::optional<int> ipu_id = std::nullopt,
                        std::source_location where = std::source_location::current()) {
  return [=](auto&&... arguments) -> decltype(auto) {
    Block::start(user_id, ipu_id, where);
    return function(std::forward<decltype(arguments)>(arguments)...);
  };
}

}  // namespace poptorch
