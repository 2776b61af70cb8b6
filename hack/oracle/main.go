// The real scheduler as an oracle: reads decision cases, a JSON object a line, and writes for each
// what the packages of k8s.io/kubernetes/pkg/scheduler answer, in the form of the recorded decisions
// (docs/design/conformance.md). It needs no API server and keeps nothing between cases.
//
// An empty object is answered by the version and the defaults of all feature gates.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"sync"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/version"
	"k8s.io/klog/v2"
)

// request is one line of input.
type request struct {
	ID      string                       `json:"id"`
	Objects map[string][]json.RawMessage `json:"objects"`
	Pod     json.RawMessage              `json:"pod"`
	Config  json.RawMessage              `json:"config"`
	Gates   map[string]bool              `json:"gates"`
	// Tries says how often to ask preemption, which draws among equal candidates.
	Tries int `json:"tries"`
	// OwnImageSizes asks for image sizes as each node reports them.
	OwnImageSizes bool `json:"ownImageSizes"`
	// Run asks for a run of the whole scheduler over all waiting pods instead of one decision.
	Run bool `json:"run"`
}

type answer = map[string]any

func main() {
	klog.SetOutput(io.Discard)
	klog.LogToStderr(false)
	// victims are deleted in the asking goroutine, so that an answer is complete when preemption returns
	_ = utilfeature.DefaultMutableFeatureGate.SetFromMap(map[string]bool{"SchedulerAsyncPreemption": false})
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := bufio.NewWriter(os.Stdout)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 1 {
			if failed := encoder.Encode(reply(line)); failed != nil {
				fmt.Fprintln(os.Stderr, "oracle: writing an answer:", failed)
				os.Exit(1)
			}
			out.Flush()
		}
		if err == io.EOF {
			return
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "oracle: reading a case:", err)
			os.Exit(1)
		}
	}
}

// reply answers a line; whatever goes wrong is an answer, so that a server outlives a bad case.
func reply(line []byte) (found answer) {
	var asked request
	defer func() {
		if problem := recover(); problem != nil {
			found = answer{"id": asked.ID, "failed": fmt.Sprintf("panic: %v\n%s", problem, debug.Stack())}
		}
	}()
	if err := json.Unmarshal(line, &asked); err != nil {
		return answer{"failed": err.Error()}
	}
	if asked.Pod == nil && !asked.Run {
		return describe()
	}
	restore, err := setGates(asked.Gates)
	defer restore()
	if err != nil {
		return answer{"id": asked.ID, "failed": err.Error()}
	}
	work := decide
	if asked.Run {
		work = run
	}
	expect, err := work(&asked)
	if err != nil {
		return answer{"id": asked.ID, "failed": err.Error()}
	}
	return answer{"id": asked.ID, "expect": expect}
}

func describe() answer {
	gates := map[string]any{}
	for name, spec := range utilfeature.DefaultMutableFeatureGate.GetAll() {
		gates[string(name)] = map[string]any{
			"default": spec.Default, "locked": spec.LockToDefault, "stage": string(spec.PreRelease),
		}
	}
	return answer{"version": version.Get().GitVersion, "gates": gates}
}

// setGates sets feature gates for one case.
func setGates(asked map[string]bool) (restore func(), err error) {
	gate := utilfeature.DefaultMutableFeatureGate
	wanted := map[string]bool{}
	for name, value := range asked {
		wanted[name] = value
	}
	before := map[string]bool{}
	for name, value := range wanted {
		if !knownGates()[name] {
			return func() {}, fmt.Errorf("feature gate %q is unknown to this version", name)
		}
		if now := gate.Enabled(featuregate.Feature(name)); now != value {
			before[name] = now
		} else {
			delete(wanted, name) // setting a gate costs more than many a decision
		}
	}
	if len(wanted) == 0 {
		return func() {}, nil
	}
	return func() { _ = gate.SetFromMap(before) }, gate.SetFromMap(wanted)
}

var knownGates = sync.OnceValue(func() map[string]bool {
	found := map[string]bool{}
	for name := range utilfeature.DefaultMutableFeatureGate.GetAll() {
		found[string(name)] = true
	}
	return found
})
