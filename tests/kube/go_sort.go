// Sorts as Go does and says where each element ended up. A line in: {"keys": [...], "restless": [...]},
// the keys that call themselves smaller than their equals. A line out: which element is first, and so on.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sort"
)

func main() {
	lines := json.NewDecoder(os.Stdin)
	for lines.More() {
		var asked struct{ Keys, Restless []int }
		if err := lines.Decode(&asked); err != nil {
			panic(err)
		}
		order := make([]int, len(asked.Keys))
		for place := range order {
			order[place] = place
		}
		sort.Slice(order, func(i, j int) bool {
			mine, other := asked.Keys[order[i]], asked.Keys[order[j]]
			return mine < other || (mine == other && slices.Contains(asked.Restless, mine))
		})
		text, _ := json.Marshal(order)
		fmt.Println(string(text))
	}
}
