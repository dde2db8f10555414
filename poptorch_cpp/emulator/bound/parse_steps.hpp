// Parses the steps of a code's text.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "emulator/bound/code.hpp"
#include "ir/lexer.hpp"
#include "program/fields.hpp"

namespace poptorch::emulator {

using ValueNames = std::unordered_map<std::string, ValueId>;

class StepParser {
 public:
  // Adds kernels to `code`, whose declarations are complete.
  StepParser(ir::Lexer& lexer, program::Fields& fields, Code& code, const ValueNames& names);

  // Parses a step, after its number.
  void parse(IpuCode& ipu);

 private:
  using Ids = std::vector<ValueId>;

  // The parts of a step's line.
  struct Line {
    ir::Token place = {};
    Ids results = {}, arguments = {};
    bool begins = false;                // a collective
    std::string word = {};              // empty: a chain
    int64_t rounds = 0;                 // of a loop
    std::vector<std::string> ops = {};  // of the chain
    Ids stored = {}, sources = {};      // of an epilogue
    Provider provider = Provider::kFast;
  };

  ValueId parse_id();
  Ids parse_results();
  Ids parse_arguments();
  std::vector<std::string> parse_ops();
  Line parse_line();
  Step::Kind kind_of(const Line& line) const;
  void take_index(Step& step);
  void take_fields(Step& step, const IpuCode& ipu);
  KernelSpec take_spec(Line& line);
  ChainSpec take_chain(std::string_view key, const std::vector<std::string>& ops, Ids sources,
                       Ids outputs);
  int32_t checked(int64_t number, const std::string& op);
  KernelSpec take_rows(std::vector<Line>& lines);
  void add_kernel(IpuCode& ipu, const Line& line, KernelSpec spec);

  ir::Lexer& lexer_;
  program::Fields& fields_;
  Code& code_;
  const ValueNames& names_;
  InstructionTable instructions_;
};

}  // namespace poptorch::emulator
