#include "support/flat_map.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <unordered_map>
#include <vector>

namespace poptorch::support {
namespace {

// Performs random insertions, assignments and erasures, and compares with the standard container.
template <typename Key>
void compare_with_standard(const std::vector<Key>& keys, uint64_t seed) {
  std::mt19937_64 random(seed);
  FlatMap<Key, int> map;
  FlatSet<Key> set;
  std::unordered_map<Key, int> expected;
  for (int step = 0; step < 20000; ++step) {
    const Key key = keys[random() % keys.size()];
    switch (random() % 3) {
      case 0:
        EXPECT_EQ(map.try_emplace(key, step).second, expected.try_emplace(key, step).second);
        set.insert(key);
        break;
      case 1:
        map[key] = expected[key] = step;
        set.insert(key);
        break;
      default:
        EXPECT_EQ(map.erase(key), expected.erase(key) == 1);
        set.erase(key);
    }
    ASSERT_EQ(map.size(), expected.size());
    if (step % 100 != 0) continue;
    for (const Key known : keys) {
      const auto found = expected.find(known);
      ASSERT_EQ(map.contains(known), found != expected.end());
      ASSERT_EQ(set.contains(known), found != expected.end());
      if (found != expected.end()) {
        ASSERT_EQ(map.at(known), found->second);
      }
    }
  }
}

TEST(FlatMap, HoldsWhatTheStandardMapHolds) {
  std::vector<uint64_t> ids(500);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = i;
  compare_with_standard(ids, 1);
  std::vector<int32_t> signed_ids = {-1, 0, 1, INT32_MAX};
  compare_with_standard(signed_ids, 2);
  std::vector<int> memory(300);
  std::vector<const int*> addresses{nullptr};
  for (const int& element : memory) addresses.push_back(&element);
  compare_with_standard(addresses, 3);
}

// Multiples of 2^60 differ in the upper bits of the hash alone, and many of them are neighbours.
TEST(FlatMap, ErasesFromLongRuns) {
  std::vector<uint64_t> keys;
  for (uint64_t i = 0; i < 15; ++i) keys.push_back(i << 60);
  compare_with_standard(keys, 4);
}

TEST(FlatMap, HasNoEntryForTheReservedKey) {
  FlatMap<uint64_t, int> map;
  EXPECT_FALSE(map.contains(UINT64_MAX));
  map[1] = 2;
  EXPECT_FALSE(map.contains(UINT64_MAX));
  EXPECT_EQ(map.find(UINT64_MAX), map.end());
  EXPECT_THROW(map[UINT64_MAX], std::invalid_argument);
  EXPECT_THROW(map.at(2), std::out_of_range);
}

TEST(FlatMap, MovesValuesThatCannotBeCopied) {
  FlatMap<int, std::unique_ptr<int>> map;
  for (int i = 0; i < 100; ++i) map[i] = std::make_unique<int>(i);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(*map.at(i), i);
}

}  // namespace
}  // namespace poptorch::support
