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

// While it lives, what forward computes belongs to a block. Blocks with an empty id are called "0",
// "1", ... in their order. `ipu_id` counts unless the strategy names another IPU.
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
  // Starts the automatic ids at "0". Call it first in forward.
  static void useAutoId();
};

// From the first use of one of the module's own parameters on, forward belongs to the block, until
// the next one begins: where a module in it begins a block, until there. The annotation ends with
// the module, and clones have none. Annotate modules in the order in which they run. Refuses a
// second block, a module without parameters and, at the first call, one that forward does not use.
void begin_block(const torch::nn::Module& module, const std::string& user_id = "",
                 std::optional<int> ipu_id = std::nullopt,
                 std::source_location where = std::source_location::current());
// The module, and all modules in it, begin no blocks any more.
void remove_blocks(const torch::nn::Module& module);

// A function like `function` whose ops belong to a block.
template <typename Function>
auto BlockFunction(Function function, std::string user_id = "",
                   std::optional<int> ipu_id = std::nullopt,
                   std::source_location where = std::source_location::current()) {
  return [=](auto&&... arguments) -> decltype(auto) {
    const Block block(user_id, ipu_id, where);
    return function(std::forward<decltype(arguments)>(arguments)...);
  };
}

// A function like `function` at which a block begins that lasts until the next one begins.
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
