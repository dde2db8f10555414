// Runs a module op by op with reference kernels: the oracle of every later form. All replicas
// execute each op together, so that collectives are plain loops.
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

  // Runs graph `graph` once; each replica has one set of inputs. Returns the outputs of each.
  std::vector<std::vector<ir::Literal>> run(const std::vector<std::vector<ir::Literal>>& inputs,
                                            const std::string& graph = "main");
  // Does the same for a single replica.
  std::vector<ir::Literal> run_one(const std::vector<ir::Literal>& inputs,
                                   const std::string& graph = "main");

  ir::Literal state(const std::string& name, int replica = 0) const;
  void set_state(const std::string& name, const ir::Literal& value);  // on every replica
  // Returns the transfers of a replica's stream, which host_load takes from and host_store adds to,
  // in order.
  std::vector<ir::Literal>& stream(const std::string& name, int replica = 0);
  // Returns the rows of a remote buffer.
  std::vector<ir::Literal>& remote(const std::string& name, int replica = 0);
  uint64_t micro_batch = 0;  // keys random ops; the caller counts

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace poptorch::reference
