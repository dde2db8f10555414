// Runs a module op by op with reference kernels: the oracle of every later form. All replicas go
// through each op together, so that collectives are plain loops.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ir/module.hpp"

namespace poptorch::reference {

class Interpreter {
 public:
  // State slots begin with their initial value or zeros. The module must outlive this.
  explicit Interpreter(const ir::Module& module, int replicas = 1, uint64_t seed = 0);
  ~Interpreter();

  // Runs graph `graph` once; one set of inputs for each replica. Returns the outputs of each.
  std::vector<std::vector<ir::Literal>> run(const std::vector<std::vector<ir::Literal>>& inputs,
                                            const std::string& graph = "main");
  // The same for a single replica.
  std::vector<ir::Literal> run_one(const std::vector<ir::Literal>& inputs,
                                   const std::string& graph = "main");

  ir::Literal state(const std::string& name, int replica = 0) const;
  void set_state(const std::string& name, const ir::Literal& value);  // on every replica
  // Transfers that host_load takes from and host_store adds to, in order; by stream, of a replica.
  std::vector<ir::Literal>& stream(const std::string& name, int replica = 0);
  // Rows of a remote buffer.
  std::vector<ir::Literal>& remote(const std::string& name, int replica = 0);
  uint64_t micro_batch = 0;  // keys random ops; the caller counts

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace poptorch::reference
