// fgd-order writes the order in which hkust-adsl/kubernetes-scheduler-simulator takes pods and names
// nodes for a seed, for `bayplan trace reproduce fgd --order`:
//
//	go run hack/fgd-order/main.go DIR 42 > order.json
//
// DIR holds the CSV files of the openb trace. That program seeds Go's math/rand, draws once for its
// log, shuffles the pods, adds random ones up to 130 % of all GPUs, and draws the order of its nodes'
// names after ten other draws (found by trying; probably its informers' lengths of watches).
package main

import (
	"encoding/csv"
	"encoding/json"
	"log"
	"math/rand"
	"os"
	"path/filepath"
	"sort"
	"strconv"
)

const (
	load      = 1.3
	informers = 10
)

// table reads a file, sorted by its first column, as columns by name.
func table(dir, name string) ([][]string, map[string]int) {
	file, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		log.Fatal(err)
	}
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil {
		log.Fatal(err)
	}
	columns := map[string]int{}
	for place, title := range rows[0] {
		columns[title] = place
	}
	rows = rows[1:]
	sort.Slice(rows, func(i, j int) bool { return rows[i][0] < rows[j][0] })
	return rows, columns
}

func number(text string) int64 {
	found, _ := strconv.ParseInt(text, 10, 64)
	return found
}

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: fgd-order DIR SEED")
	}
	nodes, of := table(os.Args[1], "openb_node_list_gpu_node.csv")
	var capacity int64
	for _, node := range nodes {
		capacity += 1000 * number(node[of["gpu"]])
	}
	pods, of := table(os.Args[1], "openb_pod_list_default.csv")
	part := func(pod int) int64 { return number(pods[pod][of["gpu_milli"]]) }
	whole := func(pod int) int64 { return part(pod) * number(pods[pod][of["num_gpu"]]) }

	source := rand.New(rand.NewSource(number(os.Args[2])))
	source.Int()
	order := make([]int, len(pods))
	var asked int64
	for pod := range pods {
		order[pod] = pod
		asked += whole(pod)
	}
	source.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	for {
		pod := source.Intn(len(pods))
		if float64(asked+part(pod)) > load*float64(capacity) {
			break
		}
		asked += whole(pod)
		order = append(order, pod)
	}
	for range informers {
		source.Float64()
	}
	names := source.Perm(len(nodes))
	_ = json.NewEncoder(os.Stdout).Encode(map[string][]int{"pods": order, "nodes": names})
}
