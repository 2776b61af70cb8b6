package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sort"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// cluster is a real scheduler over the objects of one case.
type cluster struct {
	sched    *scheduler.Scheduler
	factory  *factory
	client   *fake.Clientset
	wrote    *writes
	recorded *recorder
}

func newCluster(ctx context.Context, asked *request) (*cluster, error) {
	options, err := load(asked.Config)
	if err != nil {
		return nil, err
	}
	found := &cluster{factory: newFactory(), wrote: &writes{}, recorded: &recorder{bound: map[string]bool{}}}
	found.client = found.newClient()
	recorders := func(string) events.EventRecorderLogger { return found.recorded }
	found.sched, err = scheduler.New(ctx, found.client, found.factory, nil, recorders, options...)
	if err != nil {
		return nil, err
	}
	return found, found.fill(asked.Objects)
}

// fill delivers objects; those that others name come first, as they do after a start.
func (c *cluster) fill(objects map[string][]json.RawMessage) error {
	plurals := make([]string, 0, len(objects))
	for plural := range objects {
		plurals = append(plurals, plural)
	}
	sort.Slice(plurals, func(i, j int) bool {
		late := func(plural string) bool { return plural == "pods" }
		if late(plurals[i]) != late(plurals[j]) {
			return late(plurals[j])
		}
		return plurals[i] < plurals[j]
	})
	for _, plural := range plurals {
		bodies := objects[plural]
		if plural == "pods" {
			bodies = withSchedulerNames(bodies)
		}
		if err := c.factory.add(plural, bodies); err != nil {
			return err
		}
	}
	return nil
}

func withSchedulerNames(bodies []json.RawMessage) []json.RawMessage {
	found := make([]json.RawMessage, 0, len(bodies))
	for _, body := range bodies {
		var pod v1.Pod
		if !bytes.Contains(body, []byte(`"schedulerName"`)) && json.Unmarshal(body, &pod) == nil && pod.Spec.SchedulerName == "" {
			pod.Spec.SchedulerName = v1.DefaultSchedulerName
			body, _ = json.Marshal(&pod)
		}
		found = append(found, body)
	}
	return found
}

// newClient makes a client that accepts every write and remembers it.
func (c *cluster) newClient() *fake.Clientset {
	client := &fake.Clientset{}
	client.AddReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		switch action := action.(type) {
		case clienttesting.DeleteAction:
			c.wrote.add(write{verb: "delete", key: action.GetNamespace() + "/" + action.GetName()}, action)
		case clienttesting.PatchAction:
			c.wrote.add(write{verb: "patch", key: action.GetNamespace() + "/" + action.GetName(), body: action.GetPatch()}, action)
		case clienttesting.CreateAction: // an update is one, too
			object, body := c.wrote.addObject(action)
			if action.GetVerb() == "create" && body != nil {
				// a binding cycle may wait until it sees the claim that it made
				return true, object, c.factory.put(action.GetResource().Resource, body)
			}
			return true, object, nil
		}
		return true, nil, nil
	})
	return client
}

// snapshot is the scheduler's own, brought up to date as a scheduling cycle does first.
func (c *cluster) snapshot(ctx context.Context, fwk framework.Framework) (*internalcache.Snapshot, error) {
	snapshot, ok := fwk.SnapshotSharedLister().(*internalcache.Snapshot)
	if !ok {
		return nil, fmt.Errorf("the snapshot is a %T", fwk.SnapshotSharedLister())
	}
	return snapshot, c.sched.Cache.UpdateSnapshot(klog.FromContext(ctx), snapshot)
}

func load(body json.RawMessage) ([]scheduler.Option, error) {
	if len(body) == 0 || string(body) == "null" {
		body = json.RawMessage(`{"apiVersion":"kubescheduler.config.k8s.io/v1","kind":"KubeSchedulerConfiguration"}`)
	}
	object, _, err := scheme.Codecs.UniversalDecoder().Decode(body, nil, nil)
	if err != nil {
		return nil, err
	}
	loaded, ok := object.(*config.KubeSchedulerConfiguration)
	if !ok {
		return nil, fmt.Errorf("the configuration is a %T", object)
	}
	loaded.LeaderElection.LeaderElect = false
	if problems := validation.ValidateKubeSchedulerConfiguration(loaded); problems != nil {
		return nil, problems
	}
	return []scheduler.Option{
		scheduler.WithProfiles(loaded.Profiles...),
		scheduler.WithPercentageOfNodesToScore(loaded.PercentageOfNodesToScore),
		scheduler.WithPodMaxBackoffSeconds(loaded.PodMaxBackoffSeconds),
		scheduler.WithPodInitialBackoffSeconds(loaded.PodInitialBackoffSeconds),
		scheduler.WithExtenders(loaded.Extenders...),
		scheduler.WithParallelism(1),
	}, nil
}

// names is a set of names that several goroutines may fill.
type names struct {
	mu    sync.Mutex
	found []string
}

func (n *names) add(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.found = append(n.found, name)
}

// take returns the sorted names and forgets them.
func (n *names) take() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	found := n.found
	n.found = nil
	sort.Strings(found)
	return found
}

// recorder keeps events: who, reason and note.
type recorder struct {
	mu    sync.Mutex
	found []map[string]string
	bound map[string]bool
}

func (r *recorder) Eventf(regarding, _ runtime.Object, kind, reason, action, note string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	who := ""
	if named, ok := regarding.(metav1.Object); ok {
		who = named.GetNamespace() + "/" + named.GetName()
		if reason == "Scheduled" {
			r.bound[string(named.GetUID())] = true
		}
	}
	r.found = append(r.found, map[string]string{
		"regarding": who, "type": kind, "reason": reason, "action": action, "note": fmt.Sprintf(note, args...),
	})
}

func (r *recorder) WithLogger(klog.Logger) events.EventRecorderLogger { return r }

// scheduled returns the uids of the pods whose binding cycle has ended well.
func (r *recorder) scheduled() map[string]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.bound)
}

// take returns the events and forgets them.
func (r *recorder) take() []map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	found := r.found
	r.found = nil
	return found
}
