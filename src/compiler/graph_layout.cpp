// SPDX-License-Identifier: Apache-2.0
// Layered drawing (Sugiyama, Tagawa and Toda 1981): rows, order within rows by barycentres, coordinates by
// least squares.
#include "compiler/graph_layout.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <optional>

namespace stiletto::detail {
namespace {

constexpr double margin = 16, row_gap = 34, node_gap = 22, lane_gap = 12, padding = 14, lane_width = 2;
constexpr int order_sweeps = 8, position_sweeps = 24;

/// A node, or the place in a row where an edge passes it.
struct Item {
  double width = lane_width, height = 0;
  std::size_t row = 0;
  bool lane = false;
  bool outside = false;  // in a row of a region, but not of the region
  double x = 0;          // centre
  double order = 0;
  double weight = 1;  // what lies on long paths gives way less, so that they are straight
  std::vector<std::uint32_t> above, below;  // neighbours in the next rows
};

struct Row {
  std::optional<std::uint32_t> region;  // none: between regions
  std::vector<std::uint32_t> items;     // from left to right, those outside of the region first
  double top = 0, height = 0;
};

/// A position as near to what is wanted as the distances between neighbours allow: least squares, by pooling
/// what would overlap. `gaps[i]` is the least distance from i to i + 1.
std::vector<double> separated(const std::vector<double>& wanted, const std::vector<double>& weights,
                              const std::vector<double>& gaps) {
  struct Pool {
    double sum, weight;
    std::size_t count;
    double mean() const { return sum / weight; }
  };
  std::vector<double> offsets(wanted.size());
  for (std::size_t i = 1; i < wanted.size(); ++i) offsets[i] = offsets[i - 1] + gaps[i - 1];
  std::vector<Pool> pools;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    pools.push_back({(wanted[i] - offsets[i]) * weights[i], weights[i], 1});
    while (pools.size() > 1 && pools[pools.size() - 2].mean() > pools.back().mean()) {
      const Pool last = pools.back();
      pools.pop_back();
      pools.back().sum += last.sum;
      pools.back().weight += last.weight;
      pools.back().count += last.count;
    }
  }
  std::vector<double> result;
  for (const Pool& pool : pools)
    for (std::size_t i = 0; i < pool.count; ++i) result.push_back(pool.mean() + offsets[result.size()]);
  return result;
}

class Drawing {
 public:
  explicit Drawing(const LayoutRequest& request) : request_(request) {}

  Layout run() {
    assign_rows();
    make_items();
    weigh();
    order_rows();
    place();
    box_regions();
    place_outside();
    return result();
  }

 private:
  using Kind = LayoutNode::Kind;
  const LayoutNode& node(std::size_t i) const { return request_.nodes[i]; }

  /// Inner nodes as near as possible to where their region ends; an edge against the order is drawn upwards.
  void assign_rows() {
    const std::size_t count = request_.nodes.size();
    std::vector<std::size_t> to_end(count), depth(request_.regions.size());
    std::vector<std::vector<std::uint32_t>> successors(count);
    for (const LayoutEdge& edge : request_.edges) successors[edge.from].push_back(edge.to);
    auto inner = [&](std::size_t i) { return node(i).kind == Kind::inner; };
    for (std::size_t i = count; i-- > 0;) {  // edges between inner nodes lead to later ones
      if (!inner(i)) continue;
      for (std::uint32_t next : successors[i])
        if (inner(next) && node(next).region == node(i).region)
          to_end[i] = std::max(to_end[i], to_end[next] + 1);
      std::size_t& rows = depth[node(i).region];
      rows = std::max(rows, to_end[i] + 1);
    }
    std::vector<std::size_t> end(depth.size());
    rows_.emplace_back();
    for (std::uint32_t region = 0; region < depth.size(); ++region) {
      for (std::size_t r = 0; r < depth[region]; ++r) rows_.emplace_back().region = region;
      end[region] = rows_.size();
      if (depth[region] > 0) rows_.emplace_back();
    }
    if (rows_.size() == 1) rows_.emplace_back();
    row_of_.assign(count, rows_.size() - 1);
    for (std::size_t i = 0; i < count; ++i)
      if (inner(i)) row_of_[i] = end[node(i).region] - 1 - to_end[i];
    for (const LayoutEdge& edge : request_.edges)
      if (node(edge.to).kind == Kind::sink && inner(edge.from))
        row_of_[edge.to] = end[node(edge.from).region];
    for (std::size_t i = 0; i < count; ++i)
      if (node(i).kind == Kind::source)
        for (std::uint32_t next : successors[i]) row_of_[i] = std::min(row_of_[i], row_of_[next] - 1);
  }

  void make_items() {
    auto add = [&](Item item) {
      const auto index = static_cast<std::uint32_t>(items_.size());
      item.order = static_cast<double>(rows_[item.row].items.size());
      rows_[item.row].items.push_back(index);
      items_.push_back(std::move(item));
      return index;
    };
    for (std::size_t i = 0; i < request_.nodes.size(); ++i) {
      Item item;
      item.width = node(i).width;
      item.height = node(i).height;
      item.row = row_of_[i];
      item.outside = node(i).kind != Kind::inner;
      add(std::move(item));
    }
    for (const LayoutEdge& edge : request_.edges) {
      std::uint32_t last = edge.from;
      std::vector<std::uint32_t>& lane = lanes_.emplace_back();
      const bool inside = node(edge.from).kind == Kind::inner && node(edge.to).kind == Kind::inner &&
                          node(edge.from).region == node(edge.to).region;
      for (std::size_t row = row_of_[edge.from] + 1; row < row_of_[edge.to]; ++row) {
        Item item;
        item.row = row;
        item.lane = true;
        item.outside = !inside && !leaves_region(edge, row);
        lane.push_back(add(std::move(item)));
      }
      if (row_of_[edge.from] >= row_of_[edge.to]) continue;
      for (std::uint32_t next : lane) {
        link(last, next);
        last = next;
      }
      link(last, edge.to);
    }
  }
  /// On its way down to a sink or another region, still in the region where it starts.
  bool leaves_region(const LayoutEdge& edge, std::size_t row) const {
    return node(edge.from).kind == Kind::inner && rows_[row].region == node(edge.from).region;
  }
  void link(std::uint32_t from, std::uint32_t to) {
    items_[from].below.push_back(to);
    items_[to].above.push_back(from);
  }

  /// By the longest path through each item.
  void weigh() {
    std::vector<double> depth(items_.size()), height(items_.size());
    for (const Row& row : rows_)
      for (std::uint32_t i : row.items)
        for (std::uint32_t n : items_[i].above) depth[i] = std::max(depth[i], depth[n] + 1);
    double longest = 1;
    for (std::size_t row = rows_.size(); row-- > 0;)
      for (std::uint32_t i : rows_[row].items) {
        for (std::uint32_t n : items_[i].below) height[i] = std::max(height[i], height[n] + 1);
        longest = std::max(longest, depth[i] + height[i]);
      }
    for (std::size_t i = 0; i < items_.size(); ++i)
      items_[i].weight = std::max(0.001, std::pow((depth[i] + height[i]) / longest, 12));
  }

  void order_rows() {
    for (int sweep = 0; sweep < order_sweeps; ++sweep) {
      const bool down = sweep % 2 == 0;
      for (std::size_t k = 0; k < rows_.size(); ++k) {
        Row& row = rows_[down ? k : rows_.size() - 1 - k];
        for (std::uint32_t i : row.items) {
          const auto& neighbours = down ? items_[i].above : items_[i].below;
          if (neighbours.empty()) continue;
          double sum = 0;
          for (std::uint32_t n : neighbours) sum += items_[n].order;
          items_[i].order = sum / static_cast<double>(neighbours.size());
        }
        std::stable_sort(row.items.begin(), row.items.end(), [&](std::uint32_t a, std::uint32_t b) {
          const Item &x = items_[a], &y = items_[b];
          if (row.region && x.outside != y.outside) return x.outside;
          if (row.region && x.outside && x.lane != y.lane) return y.lane;  // lanes run along the region
          return x.order < y.order;
        });
        for (std::size_t i = 0; i < row.items.size(); ++i)
          items_[row.items[i]].order = static_cast<double>(i);
      }
    }
  }

  double least_distance(std::uint32_t left, std::uint32_t right) const {
    const Item &a = items_[left], &b = items_[right];
    return (a.width + b.width) / 2 + (a.lane || b.lane ? lane_gap : node_gap);
  }

  /// Moves these neighbours of one row to where they want to be; the last not beyond `limit`.
  void move(const std::vector<std::uint32_t>& items, const std::vector<double>& wanted,
            std::optional<double> limit = {}) {
    std::vector<double> goals = wanted, weights, gaps;
    for (std::size_t i = 0; i < items.size(); ++i) {
      weights.push_back(items_[items[i]].weight);
      if (i > 0) gaps.push_back(least_distance(items[i - 1], items[i]));
    }
    if (limit && !items.empty()) {  // an item that does not give way
      gaps.push_back(items_[items.back()].width / 2);
      goals.push_back(*limit);
      weights.push_back(1e9);
    }
    const std::vector<double> x = separated(goals, weights, gaps);
    for (std::size_t i = 0; i < items.size(); ++i) items_[items[i]].x = x[i];
  }

  /// The mean of the neighbours; of those inside the region, if there are any, so that what comes in from
  /// the side bends no chain. Between regions a lane keeps to where it runs along the next one.
  double goal(const Item& item, bool above, bool below) const {
    double sum[2] = {0, 0}, weight[2] = {0, 0};
    auto add = [&](const std::vector<std::uint32_t>& neighbours) {
      for (std::uint32_t n : neighbours) {
        const Item& neighbour = items_[n];
        const int side = neighbour.outside && rows_[neighbour.row].region ? 1 : 0;
        sum[side] += neighbour.x * neighbour.weight;
        weight[side] += neighbour.weight;
      }
    };
    if (above) add(item.above);
    if (below) add(item.below);
    const int first = item.lane && !rows_[item.row].region ? 1 : 0;
    for (int side : {first, 1 - first})
      if (weight[side] > 0) return sum[side] / weight[side];
    return item.x;
  }

  std::vector<std::uint32_t> part(const Row& row, bool outside) const {
    std::vector<std::uint32_t> result;
    for (std::uint32_t i : row.items)
      if (!row.region || items_[i].outside == outside) result.push_back(i);
    return result;
  }
  void settle(const std::vector<std::uint32_t>& items, bool above, bool below,
              std::optional<double> limit = {}) {
    std::vector<double> wanted;
    wanted.reserve(items.size());
    for (std::uint32_t i : items) wanted.push_back(goal(items_[i], above, below));
    move(items, wanted, limit);
  }

  void place() {
    for (Row& row : rows_) {  // centred, side by side
      double width = 0;
      for (std::uint32_t i : row.items) {
        items_[i].x = width + items_[i].width / 2;
        width += items_[i].width + node_gap;
      }
      for (std::uint32_t i : row.items) items_[i].x -= width / 2;
    }
    for (int sweep = 0; sweep < position_sweeps; ++sweep) {
      const bool last = sweep + 4 >= position_sweeps, down = sweep % 2 == 0;
      for (std::size_t k = 0; k < rows_.size(); ++k) {
        const Row& row = rows_[down ? k : rows_.size() - 1 - k];
        settle(part(row, false), down || last, !down || last);
      }
    }
  }

  void box_regions() {
    double y = margin;
    std::optional<std::uint32_t> open;
    boxes_.assign(request_.regions.size(), Box{});
    for (Row& row : rows_) {
      const bool begins = row.region && open != row.region;
      if (begins) y += padding + region_title_height;
      row.top = y;
      for (std::uint32_t i : row.items) row.height = std::max(row.height, items_[i].height);
      if (row.region) {
        Box& box = boxes_[*row.region];
        if (begins)
          box = {std::numeric_limits<double>::max(), y - padding - region_title_height,
                 std::numeric_limits<double>::lowest(), y};
        for (std::uint32_t i : part(row, false)) {
          box.left = std::min(box.left, items_[i].x - items_[i].width / 2 - padding);
          box.right = std::max(box.right, items_[i].x + items_[i].width / 2 + padding);
        }
        box.bottom = y + row.height + padding;
      }
      open = row.region;
      // A row without a node is only the space that edges need.
      if (row.height > 0 || row.region) y += row.height + row_gap;
    }
    height_ = y - row_gap + margin;
    for (std::size_t r = 0; r < boxes_.size(); ++r) {
      const double missing = request_.regions[r].title_width - (boxes_[r].right - boxes_[r].left);
      if (missing <= 0 || boxes_[r].bottom == 0) continue;
      boxes_[r].left -= missing / 2;
      boxes_[r].right += missing / 2;
    }
  }

  void place_outside() {
    for (int sweep = 0; sweep < 2; ++sweep)
      for (std::size_t k = rows_.size(); k-- > 0;)
        if (rows_[k].region)
          settle(part(rows_[k], true), sweep > 0, true, boxes_[*rows_[k].region].left - node_gap);
    for (const Row& row : rows_)
      if (!row.region) settle(row.items, true, true);
  }

  Layout result() {
    double left = std::numeric_limits<double>::max(), right = std::numeric_limits<double>::lowest();
    for (const Item& item : items_) {
      left = std::min(left, item.x - item.width / 2);
      right = std::max(right, item.x + item.width / 2);
    }
    for (const Box& box : boxes_) {
      if (box.bottom == 0) continue;
      left = std::min(left, box.left);
      right = std::max(right, box.right);
    }
    if (items_.empty()) left = right = 0;
    const double shift = margin - left;
    for (Item& item : items_) item.x += shift;
    for (Box& box : boxes_) {
      if (box.bottom == 0) continue;
      box.left += shift;
      box.right += shift;
    }
    Layout layout;
    layout.width = right - left + 2 * margin;
    layout.height = height_;
    layout.regions = boxes_;
    for (std::size_t i = 0; i < request_.nodes.size(); ++i) {
      const Row& row = rows_[items_[i].row];
      layout.centers.push_back({items_[i].x, row.top + row.height / 2});
    }
    const std::vector<double> entries = entry_points();
    for (std::size_t e = 0; e < request_.edges.size(); ++e) {
      const LayoutEdge& edge = request_.edges[e];
      std::vector<Point>& path = layout.paths.emplace_back();
      path.push_back({items_[edge.from].x, layout.centers[edge.from].y + items_[edge.from].height / 2});
      for (std::uint32_t i : lanes_[e]) {
        const Row& row = rows_[items_[i].row];
        path.push_back({items_[i].x, row.top});
        path.push_back({items_[i].x, row.top + row.height});
      }
      path.push_back({entries[e], layout.centers[edge.to].y - items_[edge.to].height / 2});
    }
    return layout;
  }

  /// Edges to one node arrive side by side, in the order in which they come.
  std::vector<double> entry_points() const {
    std::vector<double> result(request_.edges.size());
    std::vector<std::vector<std::size_t>> arriving(request_.nodes.size());
    for (std::size_t e = 0; e < request_.edges.size(); ++e) arriving[request_.edges[e].to].push_back(e);
    auto origin = [&](std::size_t e) {
      return items_[lanes_[e].empty() ? request_.edges[e].from : lanes_[e].back()].x;
    };
    for (std::size_t i = 0; i < arriving.size(); ++i) {
      auto& edges = arriving[i];
      std::stable_sort(edges.begin(), edges.end(),
                       [&](std::size_t a, std::size_t b) { return origin(a) < origin(b); });
      const double step = std::min(26.0, items_[i].width / static_cast<double>(edges.size() + 1));
      for (std::size_t k = 0; k < edges.size(); ++k)
        result[edges[k]] =
            items_[i].x + (static_cast<double>(k) - static_cast<double>(edges.size() - 1) / 2) * step;
    }
    return result;
  }

  const LayoutRequest& request_;
  std::vector<Row> rows_;
  std::vector<std::size_t> row_of_;                // per node
  std::vector<Item> items_;                        // the nodes, then the lanes of edges
  std::vector<std::vector<std::uint32_t>> lanes_;  // per edge, from above to below
  std::vector<Box> boxes_;
  double height_ = 0;
};

}  // namespace

Layout lay_out(const LayoutRequest& request) { return Drawing(request).run(); }

}  // namespace stiletto::detail
