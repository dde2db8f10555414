// Edits of tokens and lines.
#include <random>
#include <vector>

#include "targets.hpp"

namespace poptorch::fuzz {
namespace {

// Numbers at which something ends, and words that stand in both text forms.
constexpr const char* kNumbers[] = {"0",
                                    "1",
                                    "-1",
                                    "2",
                                    "3",
                                    "4",
                                    "7",
                                    "8",
                                    "16",
                                    "255",
                                    "256",
                                    "1023",
                                    "4096",
                                    "65536",
                                    "2147483647",
                                    "2147483648",
                                    "4294967295",
                                    "4294967296",
                                    "-2147483648",
                                    "68719476736",
                                    "1099511627776",
                                    "9223372036854775807",
                                    "-9223372036854775808",
                                    "18446744073709551615",
                                    "0.0",
                                    "0.5",
                                    "-0.0",
                                    "1e-45",
                                    "1e39",
                                    "1e308",
                                    "1e309",
                                    "inf",
                                    "-inf",
                                    "nan"};
constexpr const char* kWords[] = {"bool",
                                  "i8",
                                  "i16",
                                  "i32",
                                  "i64",
                                  "u8",
                                  "u32",
                                  "u64",
                                  "f8_143",
                                  "f16",
                                  "bf16",
                                  "f32",
                                  "f64",
                                  "c64",
                                  "true",
                                  "false",
                                  "[]",
                                  "[0]",
                                  "[1]",
                                  "[2,3]",
                                  "_",
                                  "\"\"",
                                  "\"x\"",
                                  "\"\\x00\"",
                                  "@main",
                                  "dense<f32[]: 1.0>",
                                  "after(%x)",
                                  "@[ipu=1]",
                                  "@[stage=1]",
                                  "@[ipu=1 stage=1 phase=2]",
                                  "accumulate_outer",
                                  "scope(\"a\")",
                                  "labels(\"{}\")",
                                  "&",
                                  "\xff",
                                  "\xed\xa0\x80",
                                  "é",
                                  "(",
                                  ")",
                                  "{",
                                  "}",
                                  "%"};

constexpr const char* kSizes[] = {"0", "0", "1", "2", "3", "4", "5", "7", "8", "16", "33", "1000"};
constexpr const char* kTypes[] = {"f32", "f32", "f32", "f16",  "bf16",   "f64",
                                  "i32", "u32", "i8",  "bool", "f8_143", "c64"};

enum class Kind { kSpace, kWord, kNumber, kOther };

Kind kind_of(char c) {
  if (c == ' ' || c == '\n' || c == '\t') return Kind::kSpace;
  if (c >= '0' && c <= '9') return Kind::kNumber;
  if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '"') return Kind::kWord;
  return Kind::kOther;
}

// Runs of one kind, roughly the lexer's tokens; together they are the text.
std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> pieces;
  for (size_t i = 0; i < text.size();) {
    const Kind kind = kind_of(text[i]);
    size_t end = i + 1;
    auto same = [&](char c) {
      const Kind next = kind_of(c);
      if (kind == Kind::kWord) return next == Kind::kWord || next == Kind::kNumber;
      if (kind == Kind::kNumber) return next == kind || c == '.' || c == 'e';
      return next == kind && kind == Kind::kSpace;
    };
    while (end < text.size() && same(text[end])) ++end;
    pieces.emplace_back(text.substr(i, end - i));
    i = end;
  }
  return pieces;
}

class Mutation {
 public:
  Mutation(std::string_view text, uint64_t seed) : random_(seed), pieces_(split(text)) {}

  std::string run() {
    const size_t edits = 1 + below(4) * below(2);
    for (size_t i = 0; i < edits && !pieces_.empty(); ++i) edit();
    std::string text;
    for (const std::string& piece : pieces_) text += piece;
    return text;
  }

 private:
  size_t below(size_t n) { return random_() % n; }
  template <size_t N>
  const char* one_of(const char* const (&list)[N]) {
    return list[below(N)];
  }

  // Returns the first piece after a random place that is not a space.
  size_t pick(bool number) {
    const size_t start = below(pieces_.size());
    for (size_t i = 0; i < pieces_.size(); ++i) {
      const size_t at = (start + i) % pieces_.size();
      const Kind kind = kind_of(pieces_[at][0]);
      if (number ? kind == Kind::kNumber : kind != Kind::kSpace) return at;
    }
    return start;
  }

  // A piece behind a %, from a random place on; the first piece when there is none.
  size_t pick_name() {
    const size_t start = below(pieces_.size());
    for (size_t i = 0; i + 1 < pieces_.size(); ++i) {
      const size_t place = (start + i) % pieces_.size();
      if (place > 0 && pieces_[place - 1] == "%") return place;
    }
    return 0;
  }

  std::string name() { return pieces_[pick_name()]; }

  std::string placement() {
    static constexpr const char* kPlaces[] = {"ipu=0",
                                              "ipu=1",
                                              "ipu=1 stage=1",
                                              "ipu=2 stage=2",
                                              "ipu=0 stage=0 phase=0",
                                              "ipu=0 stage=1 phase=1",
                                              "ipu=1 stage=2 phase=2",
                                              "block=\"b\"",
                                              "io_tiles",
                                              "accumulate_outer",
                                              "ipu=3 stage=3 accumulate_outer"};
    return std::string(" @[") + one_of(kPlaces) + "]";
  }

  // The pieces of the line around a random one.
  std::pair<size_t, size_t> line() {
    size_t begin = below(pieces_.size()), end = begin;
    auto breaks = [&](size_t i) { return pieces_[i].find('\n') != std::string::npos; };
    while (begin > 0 && !breaks(begin - 1)) --begin;
    while (end < pieces_.size() && !breaks(end)) ++end;
    return {begin, std::min(end + 1, pieces_.size())};
  }

  void replace_all(const std::string& from, const std::string& to) {
    for (std::string& piece : pieces_) {
      if (piece == from) piece = to;
    }
  }

  void edit() {
    const auto at = [&](size_t i) { return pieces_.begin() + static_cast<std::ptrdiff_t>(i); };
    switch (below(18)) {
      case 0:
      case 1:
      case 2:
        pieces_[pick(true)] = one_of(kNumbers);
        break;
      case 3:
        pieces_[pick(false)] = one_of(kWords);
        break;
      case 4:  // a word from elsewhere
        pieces_[pick(false)] = std::string(pieces_[pick(false)]);
        break;
      case 5:
        pieces_.erase(at(pick(false)));
        break;
      case 6: {
        const std::string piece = pieces_[pick(false)];
        pieces_.insert(at(pick(false)), {" ", piece, " "});
        break;
      }
      case 7: {
        const auto [begin, end] = line();
        pieces_.erase(at(begin), at(end));
        break;
      }
      case 8: {
        const auto [begin, end] = line();
        const std::vector<std::string> copy(at(begin), at(end));
        const size_t to = line().first;
        pieces_.insert(at(to), copy.begin(), copy.end());
        break;
      }
      case 9:
      case 10:
      case 11: {  // one size wherever it stands, so that types still fit
        const std::string size = pieces_[pick(true)];
        replace_all(size, one_of(kSizes));
        break;
      }
      case 12: {
        const std::string word = one_of(kTypes);
        replace_all(word, one_of(kTypes));
        break;
      }
      case 13:
      case 14: {  // where and after what a line's op runs
        const size_t end = line().second;
        pieces_.insert(at(end - (end > 0)), below(2) ? placement() : " after(%" + name() + ")");
        break;
      }
      case 15: {  // another operand
        const size_t place = pick_name();
        pieces_[place] = name();
        break;
      }
      case 16:
        std::swap(pieces_[pick(false)], pieces_[pick(false)]);
        break;
      case 17:
        pieces_.insert(pieces_.begin(), execution_line(random_()));
        break;
    }
  }

  std::mt19937_64 random_;
  std::vector<std::string> pieces_;
};

}  // namespace

std::string mutated(std::string_view text, uint64_t seed) { return Mutation(text, seed).run(); }

}  // namespace poptorch::fuzz
