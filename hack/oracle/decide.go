package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"sort"
	"unsafe"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// decide answers for one pod: what each node was told, the scores of those that fit, and, where none
// does, the message and what preemption would do.
func decide(asked *request) (answer, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	found, err := newCluster(ctx, asked)
	if err != nil {
		return nil, err
	}
	var pod v1.Pod
	if err := json.Unmarshal(asked.Pod, &pod); err != nil {
		return nil, fmt.Errorf("decoding the pod: %w", err)
	}
	if pod.Spec.SchedulerName == "" {
		pod.Spec.SchedulerName = v1.DefaultSchedulerName
	}
	profile, ok := found.sched.Profiles[pod.Spec.SchedulerName]
	if !ok {
		return nil, fmt.Errorf("no profile for scheduler name %q", pod.Spec.SchedulerName)
	}
	body, _ := json.Marshal(&pod)
	if err := found.factory.add("pods", []json.RawMessage{body}); err != nil {
		return nil, err
	}
	one := &decision{cluster: found, fwk: profile, pod: &pod, ownImageSizes: asked.OwnImageSizes}
	return one.describe(ctx, max(1, asked.Tries))
}

// decision is one pod asked about on one cluster.
type decision struct {
	*cluster
	fwk   framework.Framework
	pod   *v1.Pod
	nodes []fwk.NodeInfo

	ownImageSizes bool
}

func (d *decision) describe(ctx context.Context, tries int) (answer, error) {
	snapshot, err := d.snapshot(ctx, d.fwk)
	if err != nil {
		return nil, err
	}
	if d.nodes, err = snapshot.NodeInfos().List(); err != nil {
		return nil, err
	}
	if d.ownImageSizes {
		d.setOwnImageSizes()
	}
	failure, err := d.schedule(ctx)
	if err != nil {
		if errors.Is(err, scheduler.ErrNoNodesAvailable) {
			return answer{"message": err.Error()}, nil
		}
		return answer{"error": err.Error()}, nil
	}
	described, feasible, state := d.filter(ctx)
	if failure == nil {
		return d.score(ctx, state, feasible, described)
	}
	described["message"] = failure["message"]
	if post, ok := failure["postFilter"]; ok {
		described["postFilter"] = post
	}
	if others := d.alternatives(ctx, failure, tries); len(others) > 0 {
		described["alternatives"] = others
	}
	return described, nil
}

// setOwnImageSizes gives each node the sizes it reports itself. The scheduler's cache keeps the size
// that the first node reported; the recordings of 1.36.4 were made without that cache.
func (d *decision) setOwnImageSizes() {
	for _, node := range d.nodes {
		for _, image := range node.Node().Status.Images {
			for _, name := range image.Names {
				if summary := node.GetImageStates()[name]; summary != nil {
					summary.Size = image.SizeBytes
				}
			}
		}
	}
}

// schedule runs the scheduler's own algorithm; it returns nil if a node fits.
func (d *decision) schedule(ctx context.Context) (answer, error) {
	info, err := framework.NewPodInfo(d.pod)
	if err != nil {
		return nil, err
	}
	state := framework.NewCycleState()
	state.Write(framework.PodsToActivateKey, framework.NewPodsToActivate())
	_, err = d.sched.SchedulePod(ctx, d.fwk, state, &framework.QueuedPodInfo{PodInfo: info})
	if err == nil {
		return nil, nil
	}
	var fit *framework.FitError
	if !errors.As(err, &fit) {
		return nil, err
	}
	if !d.fwk.HasPostFilterPlugins() {
		return answer{"message": fit.Error()}, nil
	}
	d.wrote.take()
	result, status := d.fwk.RunPostFilterPlugins(ctx, state, d.pod, fit.Diagnosis.NodeToStatus)
	fit.Diagnosis.PostFilterMsg = status.Message()
	return answer{"message": fit.Error(), "postFilter": postFilter(result, status, deletedPods(d.wrote.take()))}, nil
}

// alternatives asks again and returns the other answers that equally good candidates can give.
func (d *decision) alternatives(ctx context.Context, first answer, tries int) []answer {
	seen := []answer{first}
	for range tries - 1 {
		again, err := d.schedule(ctx)
		if err != nil || again == nil {
			continue
		}
		known := false
		for _, other := range seen {
			known = known || reflect.DeepEqual(other, again)
		}
		if !known {
			seen = append(seen, again)
		}
	}
	return seen[1:]
}

func postFilter(result *fwk.PostFilterResult, status *fwk.Status, victims []string) answer {
	described := answer{"code": status.Code().String()}
	if status.Plugin() != "" {
		described["plugin"] = status.Plugin()
	}
	if reasons := status.Reasons(); len(reasons) > 0 {
		described["reasons"] = reasons
	}
	nominated := ""
	if result != nil && result.NominatingInfo != nil {
		nominated = result.NominatedNodeName
	}
	return answer{"status": described, "nominatedNodeName": nominated, "victims": victims}
}

// filter asks every node, whatever the scheduler's own search would have left out.
func (d *decision) filter(ctx context.Context) (answer, []fwk.NodeInfo, *framework.CycleState) {
	state := framework.NewCycleState()
	narrowed, status, _ := d.fwk.RunPreFilterPlugins(ctx, state, d.pod)
	statuses := map[string]any{}
	if !status.IsSuccess() {
		for _, node := range d.nodes {
			statuses[node.Node().Name] = show(status)
		}
		return answer{"preFilter": show(status), "nodes": statuses}, nil, state
	}
	var feasible []fwk.NodeInfo
	for _, node := range d.nodes {
		name := node.Node().Name
		if !narrowed.AllNodes() && !narrowed.NodeNames.Has(name) {
			statuses[name] = answer{"code": fwk.UnschedulableAndUnresolvable.String(), "plugin": "PreFilterResult"}
			continue
		}
		told := d.fwk.RunFilterPluginsWithNominatedPods(ctx, state, d.pod, node)
		statuses[name] = show(told)
		if told.IsSuccess() {
			feasible = append(feasible, node)
		}
	}
	return answer{"preFilter": answer{"code": fwk.Success.String()}, "nodes": statuses}, feasible, state
}

func show(status *fwk.Status) answer {
	described := answer{"code": status.Code().String()}
	if status.IsSuccess() {
		return described
	}
	if status.Plugin() != "" {
		described["plugin"] = status.Plugin()
	}
	if reasons := append([]string(nil), status.Reasons()...); len(reasons) > 0 {
		sort.Strings(reasons)
		described["reasons"] = reasons
	}
	return described
}

// score adds the weighted scores of every node that fits, their sums and the best nodes.
func (d *decision) score(ctx context.Context, state fwk.CycleState, feasible []fwk.NodeInfo, described answer) (answer, error) {
	if status := d.fwk.RunPreScorePlugins(ctx, state, d.pod, feasible); !status.IsSuccess() {
		return answer{"error": status.AsError().Error()}, nil
	}
	scored, status := d.fwk.RunScorePlugins(ctx, state, d.pod, feasible)
	if !status.IsSuccess() {
		return answer{"error": status.AsError().Error()}, nil
	}
	raw, status := d.rawScores(ctx, state, feasible)
	if !status.IsSuccess() {
		return answer{"error": status.AsError().Error()}, nil
	}
	scores, totals := map[string]map[string]int64{}, map[string]int64{}
	best, top := []string{}, int64(0)
	for _, node := range scored {
		for _, plugin := range node.Scores {
			if scores[plugin.Name] == nil {
				scores[plugin.Name] = map[string]int64{}
			}
			scores[plugin.Name][node.Name] = plugin.Score
		}
		totals[node.Name] = node.TotalScore
		switch {
		case len(best) == 0 || node.TotalScore > top:
			best, top = []string{node.Name}, node.TotalScore
		case node.TotalScore == top:
			best = append(best, node.Name)
		}
	}
	sort.Strings(best)
	described["raw"], described["scores"], described["totals"], described["best"] = raw, scores, totals, best
	return described, nil
}

// rawScores asks every score plugin for what it says before scores are normalised, which no version
// gives out in the same way.
func (d *decision) rawScores(ctx context.Context, state fwk.CycleState, nodes []fwk.NodeInfo) (answer, *fwk.Status) {
	field := reflect.Indirect(reflect.ValueOf(d.fwk)).FieldByName("scorePlugins")
	plugins := *(*[]fwk.ScorePlugin)(unsafe.Pointer(field.UnsafeAddr()))
	found := answer{}
	for _, plugin := range plugins {
		if state.GetSkipScorePlugins().Has(plugin.Name()) {
			continue
		}
		scores := map[string]int64{}
		for _, node := range nodes {
			score, status := plugin.Score(ctx, state, d.pod, node)
			if !status.IsSuccess() {
				return nil, status
			}
			scores[node.Node().Name] = score
		}
		found[plugin.Name()] = scores
	}
	return found, nil
}
