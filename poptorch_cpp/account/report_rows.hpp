// The figures of a report, one row a figure. The bindings, the page that lists them and the schema
// of reports loop over the rows.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "account/figures.hpp"

namespace poptorch::account {

template <typename T>
struct Figure {
  using Member =
      std::variant<int T::*, int64_t T::*, double T::*, bool T::*, std::string T::*,
                   std::vector<std::string> T::*, std::vector<std::pair<std::string, double>> T::*,
                   int64_t (T::*)() const>;
  std::string_view name;
  Member member;
  std::string_view unit;  // empty for names and numbers of things
  std::string_view doc;
};

// Return the rows of a part of the report.
const std::vector<Figure<MemoryReport>>& figures_of(const MemoryReport& part);
const std::vector<Figure<WorkReport>>& figures_of(const WorkReport& part);
const std::vector<Figure<StreamReport>>& figures_of(const StreamReport& part);
const std::vector<Figure<StageReport>>& figures_of(const StageReport& part);
const std::vector<Figure<OpReport>>& figures_of(const OpReport& part);
const std::vector<Figure<CollectiveReport>>& figures_of(const CollectiveReport& part);
const std::vector<Figure<Report>>& figures_of(const Report& part);
const std::vector<Figure<RunTimes>>& figures_of(const RunTimes& part);

// A row as text.
struct FigureText {
  std::string list;  // the list of the report whose entries have it; empty: the report itself
  std::string name;
  std::string type;  // "int", "float", "bool", "str", "list of str" or "float by str"
  std::string unit, doc;
};

// Returns every figure, list by list, in the order of the report.
std::vector<FigureText> figure_texts();

}  // namespace poptorch::account
